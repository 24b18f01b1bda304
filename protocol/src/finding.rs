//! Findings: what went wrong between ranks or in one process, however the program handled it. One table has every kind; the
//! report, the suite language and docs/findings.md are made from it.

use serde::{Deserialize, Serialize};

use crate::record::ErrorCode;

macro_rules! kinds {
    ($($(#[doc = $doc:literal])+ $kind:ident $word:literal example $example:literal in $case:literal hardware $hardware:literal fix $fix:literal;)*) => {
        /// The kind of a finding. Its word in reports and suites is in snake_case.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(rename_all = "snake_case")]
        pub enum FindingKind { $($(#[doc = $doc])+ $kind,)* }

        /// Every kind, in the order of the documentation.
        pub const KINDS: &[Row] = &[$(Row {
            kind: FindingKind::$kind,
            word: $word,
            meaning: concat!($($doc),+),
            example: $example,
            case: $case,
            hardware: $hardware,
            fix: $fix,
        },)*];

        /// The words of [`KINDS`].
        pub const WORDS: &[&str] = &[$($word,)*];
    };
}

/// What is known about a kind of finding.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The kind.
    pub kind: FindingKind,
    /// Its word in reports and suites.
    pub word: &'static str,
    /// What it means.
    pub meaning: &'static str,
    /// A program that has it.
    pub example: &'static str,
    /// The case of ftest's own suites that runs such a program, and expects the finding.
    pub case: &'static str,
    /// What happens on a cluster.
    pub hardware: &'static str,
    /// What to change.
    pub fix: &'static str,
}

kinds! {
    /// Ranks called different collectives at the same position of a communicator.
    CollectiveTypeMismatch "collective_type_mismatch"
        example "Rank 0 calls `all_reduce`, and rank 1, in the other branch of an `if`, `broadcast`." in "findings/bug[bug=branch]"
        hardware "NCCL does not compare calls: the job hangs, or each rank reads the other's bytes as its own operation's."
        fix "Let every rank of the communicator call the same collectives in the same order; look for a branch on the rank, the data or the step.";
    /// Ranks gave different element counts for one collective, or the two sides of a send and recv did.
    CountMismatch "count_mismatch"
        example "The last rank has a smaller batch, and all ranks gather their predictions." in "corpus/gather-uneven"
        hardware "The job hangs, or bytes of one tensor arrive in another."
        fix "Pad or gather the sizes first; the last batch of an epoch and uneven shards are the usual cause.";
    /// Ranks gave different datatypes for one operation.
    DtypeMismatch "dtype_mismatch"
        example "One rank's metric became float64, and is added to the others' float32." in "corpus/metric-dtype"
        hardware "The bytes of one type are read as another: wrong numbers without an error, or a hang."
        fix "Cast to the same type on all ranks; look for autocast or a parameter that only one rank converted.";
    /// Ranks gave different reduction operators for one collective.
    ReduceOpMismatch "reduce_op_mismatch"
        example "Rank 0 asks for the sum, rank 1 for the maximum." in "corpus/mismatch[what=op]"
        hardware "Each rank reduces in its own way: replicas end up with different numbers, without an error."
        fix "Give all ranks the same operator.";
    /// Ranks named different roots for one broadcast or reduce.
    RootMismatch "root_mismatch"
        example "`dist.broadcast(x, src=dist.get_rank())`: each rank broadcasts from itself." in "findings/bug[bug=root]"
        hardware "The job hangs, or some ranks keep their old data."
        fix "Compute the root from values that are the same on all ranks, and remember that PyTorch's `src` is a global rank.";
    /// Ranks want to shrink a communicator to different sets of ranks.
    ShrinkExcludedRanksMismatch "shrink_excluded_ranks_mismatch"
        example "Of four ranks, rank 0 shrinks to a communicator without 3, rank 1 to one without 2." in "corpus/shrink-apart"
        hardware "The new communicator does not form: the survivors wait for each other."
        fix "Let the survivors agree through the store on which ranks are gone before they shrink.";
    /// Ranks named different sizes for one communicator, or more ranks than the cluster has.
    WorldSizeMismatch "world_size_mismatch"
        example "A rank counts itself twice and asks for a communicator with one rank too many." in "corpus/world-size"
        hardware "The communicator does not form: the job waits until its timeout."
        fix "Give all ranks the same WORLD_SIZE.";
    /// Two processes claimed the same rank of a communicator.
    DuplicateRank "duplicate_rank"
        example "A rank sets RANK to its LOCAL_RANK, its index on its node." in "corpus/local-rank"
        hardware "NCCL fails with a duplicate rank, or the job waits for the rank that no process has."
        fix "Set RANK differently for every process.";
    /// A rank ended, returned or raised while others waited for it in an operation.
    RankLost "rank_lost"
        example "A rank has fewer batches and leaves the loop, while the others reduce the gradients of the next one." in "corpus/batches"
        hardware "The others wait in the operation until NCCL's or PyTorch's timeout ends them, 10 minutes later by default."
        fix "Let every rank take the same number of steps (`Join`, `drop_last`), and make an error on one rank end them all.";
    /// Ranks waited in an operation for ranks on a host that went silent: the host is gone, or the link to it is down.
    Unreachable "unreachable"
        example "A link between two hosts goes down in the middle of a run of `all_reduce`." in "hosts/partition"
        hardware "The others wait in the operation until NCCL's or PyTorch's timeout ends them; the kernel gives up on a connection after 15 minutes."
        fix "Look at the host and the links that the finding names. To survive this, a program needs a timeout, and a smaller world or a checkpoint to go on with.";
    /// Not every rank arrived at the creation of a communicator in time.
    TimeoutWaitingForRanks "timeout_waiting_for_ranks"
        example "Only one rank of a two-rank job is started." in "corpus/rank-not-started"
        hardware "The job waits until the store's timeout."
        fix "Look at what the missing ranks did instead; `timeout.idle` shows their stacks.";
    /// Not every rank arrived at a collective in time.
    TimeoutWaitingForCollective "timeout_waiting_for_collective"
        example "A rank joins a reduction only after a message from another rank, which sends that message only after the same reduction." in "corpus/word-after"
        hardware "The others wait in the collective until PyTorch's watchdog ends them."
        fix "Look at what the missing ranks did instead; `timeout.idle` shows their stacks.";
    /// The other side of a send or recv did not arrive in time.
    TimeoutWaitingForP2p "timeout_waiting_for_p2p"
        example "The same with a `recv`: its sender first waits for a message that the receiver sends only after the `recv`." in "corpus/word-after-recv"
        hardware "The waiting side hangs until PyTorch's watchdog ends it."
        fix "Let the two sides call send and recv in matching order, or in one group.";
    /// Not every rank arrived at the split of a communicator in time.
    TimeoutWaitingForSplit "timeout_waiting_for_split"
        example "A rank belongs to no subgroup and skips `ncclCommSplit`." in "corpus/split-by-some"
        hardware "The others wait in the split."
        fix "ncclCommSplit and `new_group` are collectives of the parent: every rank must call them, even those outside the new group.";
    /// Not every survivor arrived at the shrink of a communicator in time.
    TimeoutWaitingForShrink "timeout_waiting_for_shrink"
        example "A survivor does not call `ncclCommShrink`." in "corpus/shrink-by-some"
        hardware "The survivors wait in the shrink."
        fix "Every rank that is not excluded must call ncclCommShrink.";
    /// Two ranks of one communicator use the same GPU.
    SharedDevice "shared_device"
        example "Every rank takes `cuda:0`." in "misuse/shared-device"
        hardware "NCCL refuses: ncclInvalidUsage, `Duplicate GPU detected`."
        fix "Call cudaSetDevice (`torch.cuda.set_device`) with LOCAL_RANK before the communicator is created, and start no more ranks than there are GPUs.";
    /// Ranks called operations on several communicators in conflicting orders: each operation waits for another, in a cycle. The run got through because the operations were on streams that ran at the same time.
    OrderCycle "order_cycle"
        example "Rank 0 reduces in group A and then in group B, rank 1 in B and then in A." in "corpus/two-communicators"
        hardware "NCCL needs the same order of operations on all GPUs: if the kernels of two communicators do not fit on a GPU side by side, or a call synchronizes the device, each rank waits in an operation that the other has not begun."
        fix "Issue operations on different communicators in the same order on every rank, from one thread; put those that cannot be ordered into one ncclGroupStart and ncclGroupEnd.";
    /// Ranks wait for each other in a cycle of sends and recvs outside a group, such as two ranks that both send first. The run got through because the messages were small enough to be buffered, or their streams ran at the same time.
    SendCycle "send_cycle"
        example "Two ranks swap tensors: each calls `dist.send` and then `dist.recv`." in "corpus/send-first"
        hardware "NCCL promises no buffering, and a send may block until its recv is called: the job hangs, depending on the size of the message."
        fix "Put the send and the recv into one ncclGroupStart and ncclGroupEnd (`batch_isend_irecv`), or let one side receive first.";
    /// Ranks called collectives of the same shapes from different lines: one skipped a call or made an extra one, and every later call is paired with the wrong one.
    CollectiveShift "collective_shift"
        example "One rank reduces its loss where it is computed, the other where it is logged, with a reduction in between." in "findings/order"
        hardware "NCCL compares nothing: gradients are added to losses, and the numbers are wrong without an error, or the job hangs at its end."
        fix "Let every rank make the same calls; at the lines that the finding names, look for a branch or an early return that depends on the rank, the data or the step and skips a call.";
    /// Threads of a rank took turns on a communicator in a different order than on other ranks: calls of one thread were paired with those of another, of the same shapes.
    ThreadOrder "thread_order"
        example "One thread reduces gradients and another metrics, each under a lock; which one comes first differs between ranks." in "findings/threads"
        hardware "NCCL pairs calls by their order alone: the numbers of one thread are added to those of another, without an error."
        fix "Let one thread make all calls on a communicator, fed by a queue whose order is the same on all ranks, or give each thread a communicator of its own (`new_group`); a lock does not fix the order.";
    /// Ranks of a data-parallel group did not hold the same parameters, buffers or optimizer state before their first optimizer step or after one. Checked with `sanitize: [replicas]`, on by default.
    ReplicasDiffer "replicas_differ"
        example "Gradients are averaged by hand, but each rank seeded its weights differently." in "findings/replicas[bug=seeds]"
        hardware "Each rank trains its own model with gradients from the others: the loss looks normal, the checkpoint is one rank's, and results are worse than they should be."
        fix "Start with the same weights on all ranks (DDP broadcasts them, hand-written averaging must), average every gradient, and change weights, learning rate and optimizer state identically on all ranks.";
    /// Ranks share a dataset with a DistributedSampler, and do not agree on how: on its length, the seed, the epoch, whether to shuffle, or whose part is whose. Some samples are taken twice, and others by no rank.
    SamplersDiffer "samplers_differ"
        example "Each rank seeds the sampler differently: `DistributedSampler(data, seed=args.seed + rank)`." in "parity/samplers[bug=seeds]"
        hardware "Training goes on, on other data than it should: no error, and a result that depends on the number of ranks."
        fix "Give the sampler of every rank the same dataset, seed, epoch (`set_epoch`), `shuffle` and `drop_last`, and a `rank` of its own; without `rank`, it takes that of the process group.";
    /// Training took the samples of a DistributedSampler that shuffles in the order of an earlier pass, because the program never called its `set_epoch`.
    SameOrder "same_order"
        example "`for epoch in range(10): for batch in loader: ...` without `sampler.set_epoch(epoch)`." in "parity/same-order[workers=0]"
        hardware "Every epoch has the same batches in the same order: no error, and a worse model."
        fix "Call `sampler.set_epoch(epoch)` before each pass, or say `shuffle=False` if the order does not matter.";
    /// An optimizer made steps, and none of its parameters ever had a gradient, while a model's parameters have gradients and belong to no optimizer.
    DeadParameters "dead_parameters"
        example "The optimizer is made before the model is copied, wrapped or moved into new parameters." in "parity/dead-parameters"
        hardware "The model that computes the loss never changes: no error, and a loss that only follows the data."
        fix "Make the optimizer from the parameters of the model that runs, after the last `deepcopy`, FSDP or other wrapper that replaces parameters.";
    /// Ranks sum a tensor that requires grad by an all_reduce that has no derivative, compute their losses with the sum, and get gradients for it that differ: what a rank contributed gets only that rank's gradient.
    MissingDerivative "missing_derivative"
        example "A batch norm of one's own sums means with `dist.all_reduce(mean)` in the forward pass." in "parity/sums-in-a-loss[bug=batch_norm]"
        hardware "No error: gradients lack what comes from the other ranks, and the model depends on the number of ranks."
        fix "Use `torch.distributed.nn.functional.all_reduce`, or a `torch.autograd.Function` whose backward sums the gradients; sum a detached copy of a number that is only shown.";
    /// Ranks accessed one file, one of them to write it (`torch.save`, a distributed checkpoint, safetensors), and no collective of a group lies between the accesses; or ranks saved shards of one checkpoint after other numbers of optimizer steps.
    FileConflict "file_conflict"
        example "Each rank saves the model to the same path, since `if rank == 0` is missing." in "calls/files[bug=same]"
        hardware "The file has parts of both ranks, or is read before it is complete: it cannot be loaded, or loads as something else."
        fix "Save on one rank (`if dist.get_rank() == 0`) or to a path for each, and let the others wait in `dist.barrier()` before they load; decide on one rank when to save, and broadcast that.";
    /// Two threads were inside NCCL calls on one communicator at the same time; in a group, a thread is inside from its first call to the end of the group.
    ConcurrentCalls "concurrent_calls"
        example "A thread calls `ncclAllReduce` on a communicator while another thread has a group open on it." in "corpus/two-threads"
        hardware "NCCL does not lock a communicator: it crashes, hangs, or the ranks' operations meet in different orders, and the numbers are wrong without an error."
        fix "Give each thread a communicator of its own, or let one thread make all calls on it; a lock alone does not give all ranks the same order.";
    /// An NCCL call used a communicator that had already been destroyed or aborted.
    UseAfterDestroy "use_after_destroy"
        example "An object reduces on the communicator that its owner has destroyed." in "misuse/bug[bug=use-after-destroy]"
        hardware "NCCL reads freed memory: ncclInvalidArgument, a crash, or a hang."
        fix "Destroy a communicator once, after its last call; look for a second owner, an error path, or a thread that still uses it.";
    /// A process exited with 0 while NCCL operations were pending that other ranks had not joined or that nobody had waited for. Or it exited, or destroyed a communicator, inside a group without ncclGroupEnd.
    InFlightAtExit "in_flight_at_exit"
        example "A rank issues its last reduction and ends, before the other joins." in "misuse/in-flight"
        hardware "The operation dies with the process: the other ranks hang in it, or read what was never sent."
        fix "Synchronize the stream (`work.wait()`, `torch.cuda.synchronize()`) and destroy the process group before the program ends; every ncclGroupStart needs its ncclGroupEnd.";
    /// CUDA was called where it permits no calls: in a host function or callback of a stream, or in a child that was forked after the process had used CUDA. The call fails and does nothing.
    ForbiddenCall "forbidden_call"
        example "A function that the program passed to `cudaLaunchHostFunc` frees the buffer that the stream has used." in "misuse/bug[bug=call-in-host-function]"
        hardware "cudaErrorNotPermitted or a deadlock in a host function, cudaErrorInitializationError in a forked child. Where nobody looks, the memory stays allocated and the copy is never made."
        fix "Let the host function wake a thread of the program, and call CUDA there. Start processes before the first use of CUDA or with `spawn` (`multiprocessing.set_start_method(\"spawn\")`).";
    /// A stream or the host waited for an event that is never recorded. CUDA answers with success, and nothing waits.
    UnrecordedEvent "unrecorded_event"
        example "`cudaStreamWaitEvent` for the event of another buffer, which nobody records." in "misuse/bug[bug=wait-for-nothing]"
        hardware "The wait is over at once: later work runs beside the work that it should follow, and its numbers are wrong without an error."
        fix "Record the event (`cudaEventRecord`) in the stream whose work is waited for, before the wait: a wait looks only at earlier records.";
    /// A kernel launch written `<<<...>>>` failed, and the program ended with 0 and never read the error.
    IgnoredError "ignored_error"
        example "`scale<<<1, 1500>>>(...)`: a block has at most 1024 threads." in "misuse/bug[bug=launch-too-large]"
        hardware "The kernel does not run, and what it should have written keeps its old values. No other call returns the error: `cudaDeviceSynchronize` answers with success."
        fix "Call `cudaGetLastError` after each launch. The error says what is wrong: the size of the grid or the block, the shared memory, the stream's device, a kernel that was not compiled for this GPU.";
    /// Buffers of an NCCL call, or of two calls in one group, overlap where NCCL does not allow it.
    BufferOverlap "buffer_overlap"
        example "`dist.all_gather_into_tensor(out, out[:n])` on every rank: in place, each rank has to send its own part of `out`." in "calls/gather-in-place"
        hardware "NCCL overwrites what it still has to read: wrong numbers without an error, depending on sizes, topology and algorithm."
        fix "Use separate buffers, or the place that the finding names: `out[rank * n:(rank + 1) * n]` for all_gather and reduce_scatter, the same buffer for all_reduce and broadcast. In a group (`batch_isend_irecv`, coalescing), let no call write what another one reads or writes.";
    /// The two ends of a send and recv of PyTorch do not fit together, in what NCCL does not carry: tags come in another order, or the elements of the tensors lie in another order in memory.
    TransferMismatch "transfer_mismatch"
        example "A rank sends with tag 1 and then with tag 2; the other receives tag 2 first." in "calls/transfers[bug=tags]"
        hardware "NCCL has no tags and knows no strides: each tensor arrives where another one should, or with its elements in other places, without an error."
        fix "Receive in the order in which the other rank sends; send and receive tensors of one memory format (`.contiguous()`, or `channels_last` on both ranks).";
    /// A buffer or a stream of an NCCL call belongs to another device than its communicator.
    DeviceMismatch "device_mismatch"
        example "Memory is allocated before `cudaSetDevice`, and reduced on the communicator of another GPU." in "calls/foreign-buffer"
        hardware "NCCL does not look at pointers unless NCCL_CHECK_POINTERS is set: its kernel stops with an illegal memory access, or reads over a slow path. A stream of another device is refused, and the operation never begins."
        fix "Call cudaSetDevice (`torch.cuda.set_device`) with LOCAL_RANK first of all, before memory, streams and communicators are made.";
    /// A copy, a fill, a kernel or an NCCL operation reaches past the end of its allocation, or to where nothing is allocated.
    OutOfRangeCopy "out_of_range_copy"
        example "`cudaMemcpy` of 1001 bytes into an allocation of 1000." in "misuse/bug[bug=copy-too-much]"
        hardware "cudaErrorInvalidValue, or the bytes of a neighboring allocation; a kernel, even one of NCCL's, dies with an illegal memory access."
        fix "Compare the number of bytes with what was allocated: a count of elements passed as bytes, a size from before padding, and an offset added twice are the usual causes.";
    /// A kernel accessed memory of another device, and peer access to that device was not enabled.
    PeerAccess "peer_access"
        example "A kernel on GPU 1 reads a tensor of GPU 0, and nobody has called `cudaDeviceEnablePeerAccess`." in "smoke/kernel-peer"
        hardware "cudaErrorIllegalAddress: the kernel stops, and every later call of the process fails."
        fix "Call cudaDeviceEnablePeerAccess on the kernel's device for the other one (cudaDeviceCanAccessPeer says whether that is possible), or copy the memory first; if the kernel was meant for its own memory, look for a pointer or a current device (cudaSetDevice) of another rank.";
    /// A kernel accessed an address that is not aligned to the size of the access.
    MisalignedAccess "misaligned_access"
        example "`reinterpret_cast<float4 *>(p + 1)[i] = v` in a kernel." in "findings/kernel[bug=misaligned]"
        hardware "cudaErrorMisalignedAddress: the kernel stops, and every later call of the process fails."
        fix "Wide types (`float4`, `double`) need addresses that are multiples of their size: look for a pointer that was moved by single elements and then cast, and for shared memory that several arrays share.";
    /// A copy, a fill, a kernel or an NCCL operation uses device memory that was freed.
    UseAfterFree "use_after_free"
        example "`cudaFree(p)`, and then the last copy to `p`." in "misuse/bug[bug=use-after-free]"
        hardware "cudaErrorInvalidValue, or the bytes of whoever got the memory next."
        fix "Free memory after its last use, and set the pointer to null.";
    /// Memory was freed a second time.
    DoubleFree "double_free"
        example "Two owners free one allocation." in "misuse/bug[bug=double-free]"
        hardware "cudaErrorInvalidValue; if the memory has been reallocated, someone else's allocation is freed."
        fix "Give every allocation one owner, and set the pointer to null after the free.";
    /// A pointer was freed that is not the start of an allocation of that kind.
    ForeignFree "foreign_free"
        example "`cudaFree(p + 64)`: the pointer was moved while the data were read." in "misuse/bug[bug=free-inside]"
        hardware "cudaErrorInvalidValue, and the memory stays allocated."
        fix "Free the pointer that the allocation returned, with the matching function: cudaFree, cudaFreeHost, cudaFreeAsync, cudaIpcCloseMemHandle, free.";
    /// An `assert` in a kernel failed, of the program or of PyTorch.
    DeviceAssert "device_assert"
        example "`assert(index < size)` in a kernel, and one thread's index is too large; or an index or target out of range for a tensor, as in `compute/asserted`." in "findings/kernel[bug=asserted]"
        hardware "cudaErrorAssert: the kernel stops, and every later call of the process fails."
        fix "Look at the condition and the thread: an index out of range is the usual cause. For PyTorch's operators, the finding names the value, and the line of the call, which a GPU does not.";
    /// A kernel stopped itself (`trap`, `brkpt`), called through a bad pointer, or overflowed its stack.
    KernelTrap "kernel_trap"
        example "`if (threadIdx.x == 7) __trap();` in a kernel." in "findings/kernel[bug=trapped]"
        hardware "cudaErrorLaunchFailure, cudaErrorInvalidPc or cudaErrorHardwareStackError: the kernel stops, and every later call of the process fails."
        fix "Compilers and libraries put `__trap()` where a kernel must never get: look at the condition above it. For the stack, raise `cudaLimitStackSize` or end the recursion earlier.";
    /// Threads of a block wait for each other in a way that CUDA does not allow: at different barriers, for threads that have exited, with different counts, or in a warp with masks that do not match. Misuse that does not stop the kernel here is checked with `sanitize: [sync]`.
    BarrierMisuse "barrier_misuse"
        example "`if (threadIdx.x < 32) { __syncthreads(); ... } else { __syncthreads(); ... }`: the warps wait at different barriers." in "findings/kernel[bug=parted]"
        hardware "The kernel hangs, or threads go on before the others have arrived: wrong numbers, on some GPUs."
        fix "Let all threads of the block reach the same `__syncthreads()`, outside branches that depend on the thread; give `__syncwarp` and shuffles the mask of the lanes that actually get there.";
    /// Two threads of a block touched the same shared memory, one of them wrote to it, and no barrier was in between. Checked with `sanitize: [shared-races]`.
    SharedRace "shared_race"
        example "`tile[i] = x; y = tile[i + 1];` without a barrier in between." in "findings/kernel[bug=neighbors]"
        hardware "The result depends on which warp is faster: intermittently wrong numbers, without an error."
        fix "Put `__syncthreads()` between the write and the read, and between the last read and the next write; within a warp, `__syncwarp()` is enough. Shuffles do not order memory accesses.";
    /// Two streams, or a stream and the host, touched the same memory, one of them wrote to it, and neither waited for the other. Checked with `sanitize: [races]`, on by default.
    Race "race"
        example "`work = dist.all_reduce(x, async_op=True)`, and `x * 2` before `work.wait()`." in "findings/races"
        hardware "The result depends on which stream is faster: intermittently wrong numbers, without an error."
        fix "Let the later stream wait: `work.wait()` for a collective, `stream.wait_stream(other)` or an event for a side stream, `tensor.record_stream(stream)` for memory that is freed while another stream uses it; let the host wait (an event, `torch.cuda.synchronize()`) before it reads the result of a `non_blocking` copy, or refills the pinned buffer that such a copy reads.";
    /// Device memory was read that nothing has written since it was allocated, or shared memory that no thread of the block has written. Checked with `sanitize: [init]`.
    UninitializedRead "uninitialized_read"
        example "Gradients are added to `torch.empty`, where `torch.zeros` was meant." in "findings/uninitialized[bug=accumulator]"
        hardware "The program computes with what the memory's last owner left there, often zeros in a test and numbers of another tensor in a long run."
        fix "Allocate with `torch.zeros`, or write every element (`fill_`, `copy_`, `out=`) before the first read: an accumulator or a buffer that is filled only in part is the usual cause. In a kernel, threads without work must not return before they have filled their part of shared memory.";
    /// A PyTorch operator or a reduction of NCCL returned NaN or Inf for finite inputs. Checked with `sanitize: [finite]`.
    NotFinite "not_finite"
        example "The logarithm of a probability that is 0." in "findings/not-finite[bug=logarithm]"
        hardware "The number spreads: the loss is NaN some steps later, and so is every parameter."
        fix "Look at the operator's inputs at that line: a logarithm or division of 0, the square root's gradient at 0, and sums in float16 are the usual causes; clamp, add an epsilon, or compute in a wider type. Divide before a sum over ranks in float16.";
    /// A sum over ranks in float16 or bfloat16 is the same without what one of the ranks gave: its numbers are too small beside those of the others to change a digit. Checked with `sanitize: [finite]`.
    LostContribution "lost_contribution"
        example "Each rank counts its tokens in bfloat16, and the counts are added." in "calls/lost[bug=tokens]"
        hardware "The rank's work is in no result, without an error: a mean over too few samples, or gradients that lack the small ones. A ring rounds at every hop, so with more ranks it loses more."
        fix "Sum in float32 (`reduce_dtype` of FSDP, a communication hook of DDP, `.float()` for counts and losses).";
}

impl FindingKind {
    /// What is known about it.
    pub fn row(self) -> &'static Row {
        // In the order of the enum.
        &KINDS[self as usize]
    }

    /// Its word in reports and suites.
    pub fn word(self) -> &'static str {
        self.row().word
    }

    /// Whether a rank did not arrive in time.
    pub fn is_timeout(self) -> bool {
        match self {
            Self::TimeoutWaitingForRanks
            | Self::TimeoutWaitingForCollective
            | Self::TimeoutWaitingForP2p
            | Self::TimeoutWaitingForSplit
            | Self::TimeoutWaitingForShrink => true,
            Self::CollectiveTypeMismatch
            | Self::CountMismatch
            | Self::DtypeMismatch
            | Self::ReduceOpMismatch
            | Self::RootMismatch
            | Self::ShrinkExcludedRanksMismatch
            | Self::WorldSizeMismatch
            | Self::DuplicateRank
            | Self::RankLost
            | Self::Unreachable
            | Self::SharedDevice
            | Self::OrderCycle
            | Self::SendCycle
            | Self::CollectiveShift
            | Self::ThreadOrder
            | Self::ReplicasDiffer
            | Self::SamplersDiffer
            | Self::SameOrder
            | Self::DeadParameters
            | Self::MissingDerivative
            | Self::FileConflict
            | Self::ConcurrentCalls
            | Self::UseAfterDestroy
            | Self::InFlightAtExit
            | Self::ForbiddenCall
            | Self::UnrecordedEvent
            | Self::IgnoredError
            | Self::BufferOverlap
            | Self::TransferMismatch
            | Self::DeviceMismatch
            | Self::OutOfRangeCopy
            | Self::PeerAccess
            | Self::MisalignedAccess
            | Self::DeviceAssert
            | Self::KernelTrap
            | Self::BarrierMisuse
            | Self::SharedRace
            | Self::UseAfterFree
            | Self::DoubleFree
            | Self::ForeignFree
            | Self::Race
            | Self::UninitializedRead
            | Self::NotFinite
            | Self::LostContribution => false,
        }
    }

    /// Whether it is about a rank that others waited for, and not about the calls' arguments.
    pub fn is_absence(self) -> bool {
        matches!(self, Self::RankLost | Self::Unreachable) || self.is_timeout()
    }

    /// The kind of finding for a failure with this code. None if the program did it on purpose (an abort), the case injected it,
    /// the machine refused something, or the call itself rejects its arguments.
    pub fn from_code(code: ErrorCode) -> Option<Self> {
        Some(match code {
            ErrorCode::CollectiveTypeMismatch => Self::CollectiveTypeMismatch,
            ErrorCode::CountMismatch => Self::CountMismatch,
            ErrorCode::DtypeMismatch => Self::DtypeMismatch,
            ErrorCode::ReduceOpMismatch => Self::ReduceOpMismatch,
            ErrorCode::RootMismatch => Self::RootMismatch,
            ErrorCode::ShrinkExcludedRanksMismatch => Self::ShrinkExcludedRanksMismatch,
            ErrorCode::WorldSizeMismatch => Self::WorldSizeMismatch,
            ErrorCode::DuplicateRank => Self::DuplicateRank,
            ErrorCode::RankLost => Self::RankLost,
            ErrorCode::Unreachable => Self::Unreachable,
            ErrorCode::TimeoutWaitingForRanks => Self::TimeoutWaitingForRanks,
            ErrorCode::TimeoutWaitingForCollective => Self::TimeoutWaitingForCollective,
            ErrorCode::TimeoutWaitingForP2p => Self::TimeoutWaitingForP2p,
            ErrorCode::TimeoutWaitingForSplit => Self::TimeoutWaitingForSplit,
            ErrorCode::TimeoutWaitingForShrink => Self::TimeoutWaitingForShrink,
            ErrorCode::SharedDevice => Self::SharedDevice,
            ErrorCode::InvalidArgument
            | ErrorCode::Aborted
            | ErrorCode::Revoked
            | ErrorCode::UnknownCommunicator
            | ErrorCode::InjectedRankFailure
            | ErrorCode::System => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_serde_and_rows_those_of_the_enum() {
        for row in KINDS {
            assert_eq!(row.kind.row().word, row.word);
            assert_eq!(serde_json::to_value(row.kind).unwrap(), row.word);
        }
    }
}
