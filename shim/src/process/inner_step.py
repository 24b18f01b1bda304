def is_inner():
    """Called by a hook of an optimizer's step: whether another optimizer's step calls this one (ZeroRedundancyOptimizer), which is then
    done when that one is."""
    import sys

    frame = sys._getframe(2)
    step, frame = frame.f_code, frame.f_back
    while frame is not None and frame.f_code is not step:
        frame = frame.f_back
    return frame is not None
