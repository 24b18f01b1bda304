# What a rank runs: `python rank.py SESSION TEST NODEID RESULTS`. Alone in its directory, because a script's directory comes first
# in sys.path until the session's replaces it.
import sys

if __name__ == "__main__":
    import json

    with open(sys.argv[1], encoding="utf-8") as file:
        session = json.load(file)
    sys.path[:] = session["path"]
    from ftest.pytest.rank import main

    sys.exit(main(session, *sys.argv[2:]))
