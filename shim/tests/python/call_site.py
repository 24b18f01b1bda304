"""`call_site.py PLAN`: two ranks as threads that disagree on a count, so that the failure of each says where it called.

forms     rank 0 calls through an installed package, from a generator, over several lines; rank 1 from a method in a thread
strange   rank 0 calls from code without a file, in a function that is not ASCII; rank 1's thread has frames of packages alone
"""

import ctypes
import functools
import sys
import threading

cuda = nccl = ctypes.CDLL(None)
FLOAT, SUM = 7, 0


class Rank:
    def __init__(self, device):
        self.device = device
        self.stream, self.buffer = ctypes.c_void_p(), ctypes.c_void_p()
        cuda.cudaSetDevice(device)
        cuda.cudaStreamCreate(ctypes.byref(self.stream))
        cuda.cudaMalloc(ctypes.byref(self.buffer), ctypes.c_size_t(64))

    def arguments(self, count):
        size, communicator = ctypes.c_size_t(count), ctypes.c_void_p(communicators[self.device])
        return self.buffer, self.buffer, size, FLOAT, SUM, communicator, self.stream

    def call(self, count):
        cuda.cudaSetDevice(self.device)
        nccl.ncclAllReduce(*self.arguments(count))  # rank 1 in forms

    def finish(self):
        cuda.cudaSetDevice(self.device)
        cuda.cudaStreamSynchronize(self.stream)


def forms(first, second):
    import package

    def generated():
        for count in (8,):
            yield package.all_reduce(  # rank 0 in forms
                nccl,
                first.arguments(count),
            )

    def other():
        second.call(4)
        second.finish()

    thread = threading.Thread(target=other)
    thread.start()
    cuda.cudaSetDevice(0)
    list(generated())
    first.finish()
    thread.join()


def strange(first, second):
    import package

    source = "def größe_é日(call):\n    x = 1\n    call()\n\ngröße_é日(call)\n"
    arguments = nccl, second.arguments(4)
    thread = threading.Thread(target=package.all_reduce, args=(*arguments, second.finish))
    thread.start()
    cuda.cudaSetDevice(0)
    exec(compile(source, "<zelle 日>", "exec"), {"call": functools.partial(nccl.ncclAllReduce, *first.arguments(8))})
    first.finish()
    thread.join()


communicators = (ctypes.c_void_p * 2)()
ranks = [Rank(0), Rank(1)]
nccl.ncclCommInitAll(communicators, 2, None)
{"forms": forms, "strange": strange}[sys.argv[1]](*ranks)
