//! Every collective, datatype and reduction, in and out of place, for several sizes, over shared memory and sockets.
//! Expected values are computed here from whole numbers that every type holds exactly.

use dataplane::call::{Buffer, Call, Scalar};
use dataplane::kernels::float8;
use dataplane::settings::Settings;
use half::{bf16, f16};
use protocol::datatype::{Datatype, Operation, ReductionOp};

use crate::support::{Player, play, read, ways, write};

/// A small whole number as an element.
fn encode(datatype: Datatype, value: f64) -> Vec<u8> {
    match datatype {
        Datatype::Int8 => (value as i8).to_ne_bytes().to_vec(),
        Datatype::Uint8 => (value as u8).to_ne_bytes().to_vec(),
        Datatype::Int32 => (value as i32).to_ne_bytes().to_vec(),
        Datatype::Uint32 => (value as u32).to_ne_bytes().to_vec(),
        Datatype::Int64 => (value as i64).to_ne_bytes().to_vec(),
        Datatype::Uint64 => (value as u64).to_ne_bytes().to_vec(),
        Datatype::Float16 => f16::from_f64(value).to_ne_bytes().to_vec(),
        Datatype::Float32 => (value as f32).to_ne_bytes().to_vec(),
        Datatype::Float64 => value.to_ne_bytes().to_vec(),
        Datatype::Bfloat16 => bf16::from_f64(value).to_ne_bytes().to_vec(),
        Datatype::Float8E4M3 => vec![float8::f32_to_e4m3(value as f32)],
        Datatype::Float8E5M2 => vec![float8::f32_to_e5m2(value as f32)],
    }
}

/// What rank `rank` contributes as element `index`: 1 or 2, so that products of four ranks stay exact in every type.
fn input(rank: usize, index: usize) -> f64 {
    1.0 + ((index * 7 + rank * 3 + index / 5) % 2) as f64
}

fn contribution(datatype: Datatype, rank: usize, count: usize) -> Vec<u8> {
    (0..count).flat_map(|index| encode(datatype, input(rank, index))).collect()
}

/// The reduction of all ranks' element `index`; `None` where the type cannot hold it exactly.
fn reduced(datatype: Datatype, op: ReductionOp, size: usize, index: usize) -> Option<f64> {
    let values: Vec<f64> = (0..size).map(|rank| input(rank, index)).collect();
    let integer = !matches!(
        datatype,
        Datatype::Float16
            | Datatype::Float32
            | Datatype::Float64
            | Datatype::Bfloat16
            | Datatype::Float8E4M3
            | Datatype::Float8E5M2
    );
    let sum: f64 = values.iter().sum();
    match op {
        ReductionOp::Sum => Some(sum),
        ReductionOp::Prod => Some(values.iter().product()),
        ReductionOp::Max => Some(values.iter().copied().fold(0.0, f64::max)),
        ReductionOp::Min => Some(values.iter().copied().fold(9.0, f64::min)),
        ReductionOp::Avg if integer => Some((sum / size as f64).floor()),
        // Thirds are not exact in binary.
        ReductionOp::Avg if size == 3 => None,
        ReductionOp::Avg => Some(sum / size as f64),
        // Rank r's factor is r + 1.
        ReductionOp::PreMulSum => Some(values.iter().enumerate().map(|(rank, value)| value * (rank + 1) as f64).sum()),
    }
}

fn check_reduced(what: &str, datatype: Datatype, op: ReductionOp, size: usize, first: usize, got: &[u8]) {
    for (index, element) in got.chunks(datatype.size()).enumerate() {
        let Some(expected) = reduced(datatype, op, size, first + index) else { continue };
        // e5m2 holds whole numbers up to 8 only, e4m3 up to 16.
        let limit = match datatype {
            Datatype::Float8E5M2 => 8.0,
            Datatype::Float8E4M3 => 16.0,
            _ => 100.0,
        };
        let exact = op != ReductionOp::Avg || datatype.size() > 1 || expected.fract() == 0.0;
        if expected <= limit && exact {
            assert_eq!(element, encode(datatype, expected), "{what} {op} {datatype} element {}", first + index);
        }
    }
}

fn reduction_call(player: &Player, operation: Operation, datatype: Datatype, op: ReductionOp, count: usize) -> Call {
    let mut call = Call::new(operation, count as u64, datatype);
    call.reduction = Some(op);
    if op == ReductionOp::PreMulSum {
        let mut bytes = [0; 8];
        bytes[..datatype.size()].copy_from_slice(&encode(datatype, (player.rank + 1) as f64));
        call.scalar = Some(Scalar::Immediate(bytes));
    }
    call
}

/// Buffers of one call: (send, receive), in place or not, in the arena or in ordinary memory.
fn buffers(player: &Player, send: &[u8], receive: usize, in_place_at: Option<usize>) -> (Buffer, Buffer) {
    if let Some(at) = in_place_at {
        let whole = player.device(send.len().max(receive) + at);
        let send_at = player.offset(whole, at);
        write(send_at, send);
        return (send_at, whole);
    }
    (player.filled(send), player.device(receive))
}

const COUNTS: [usize; 4] = [1, 37, 1200, 5003];

#[test]
fn reductions_of_every_type_and_operator() {
    for settings in ways() {
        for size in 1..=4 {
            play(&settings, size, |player| {
                for &datatype in Datatype::ALL {
                    for &op in ReductionOp::ALL {
                        for count in [3, 4 * 1200 + 3] {
                            all_reduce(player, datatype, op, count, count % 2 == 0);
                        }
                    }
                }
            });
        }
    }
}

fn all_reduce(player: &Player, datatype: Datatype, op: ReductionOp, count: usize, in_place: bool) {
    let send = contribution(datatype, player.rank, count);
    let mut call = reduction_call(player, Operation::AllReduce, datatype, op, count);
    (call.send, call.receive) = buffers(player, &send, send.len(), in_place.then_some(0));
    player.run(&[call]).unwrap();
    check_reduced("all_reduce", datatype, op, player.size, 0, &read(call.receive, send.len()));
    if !in_place {
        assert_eq!(read(call.send, send.len()), send, "the contribution changed");
    }
}

#[test]
fn reduce_and_reduce_scatter_in_and_out_of_place() {
    for settings in ways() {
        for size in 1..=4 {
            play(&settings, size, |player| {
                for (datatype, op) in [
                    (Datatype::Float32, ReductionOp::Sum),
                    (Datatype::Int8, ReductionOp::Max),
                    (Datatype::Bfloat16, ReductionOp::Prod),
                ] {
                    for count in COUNTS {
                        for in_place in [false, true] {
                            all_reduce(player, datatype, op, count, in_place);
                            for root in 0..size {
                                reduce(player, datatype, op, count, root, in_place);
                            }
                            reduce_scatter(player, datatype, op, count, in_place);
                        }
                    }
                }
            });
        }
    }
}

fn reduce(player: &Player, datatype: Datatype, op: ReductionOp, count: usize, root: usize, in_place: bool) {
    let send = contribution(datatype, player.rank, count);
    let mut call = reduction_call(player, Operation::Reduce, datatype, op, count);
    call.root = Some(root as u32);
    (call.send, call.receive) = buffers(player, &send, send.len(), in_place.then_some(0));
    if player.rank != root && !in_place {
        call.receive = Buffer::NONE;
    }
    player.run(&[call]).unwrap();
    if player.rank == root {
        check_reduced("reduce", datatype, op, player.size, 0, &read(call.receive, send.len()));
    } else {
        assert_eq!(read(call.send, send.len()), send, "the contribution changed");
    }
}

fn reduce_scatter(player: &Player, datatype: Datatype, op: ReductionOp, count: usize, in_place: bool) {
    let send = contribution(datatype, player.rank, count * player.size);
    let mut call = reduction_call(player, Operation::ReduceScatter, datatype, op, count);
    let block = count * datatype.size();
    call.send = player.filled(&send);
    call.receive = if in_place { player.offset(call.send, player.rank * block) } else { player.device(block) };
    player.run(&[call]).unwrap();
    let got = read(call.receive, block);
    check_reduced("reduce_scatter", datatype, op, player.size, player.rank * count, &got);
}

/// More than one piece over sockets, and more than the caches are asked to hold in shared memory.
#[test]
fn large_reductions() {
    const COUNT: usize = (9 << 20) / size_of::<f64>() + 13;
    // Element i is `factor * (i % 1000) + more`.
    let bytes = |factor: usize, more: usize, count: usize| -> Vec<u8> {
        let period: Vec<u8> = (0..1000).flat_map(|index| ((factor * index + more) as f64).to_ne_bytes()).collect();
        let mut bytes = period.repeat(count.div_ceil(1000));
        bytes.truncate(count * size_of::<f64>());
        bytes
    };
    for settings in ways().map(|settings| Settings { chunk_bytes: 1 << 20, ..settings }) {
        for (size, in_place) in [(2, true), (4, false)] {
            let sums = bytes(size, (0..size).sum(), COUNT * size);
            play(&settings, size, |player| {
                let own = bytes(1, player.rank, COUNT * size);
                let mut call = reduction_call(player, Operation::AllReduce, Datatype::Float64, ReductionOp::Sum, COUNT);
                let whole = COUNT * size_of::<f64>();
                (call.send, call.receive) = buffers(player, &own[..whole], whole, in_place.then_some(0));
                call.operation = Operation::AllReduce;
                player.run(&[call]).unwrap();
                assert!(read(call.receive, whole) == sums[..whole], "all_reduce");
                (call.send, call.receive) = buffers(player, &own[..whole], whole, in_place.then_some(0));
                call.operation = Operation::Reduce;
                call.root = Some(1);
                player.run(&[call]).unwrap();
                let expected = if player.rank == 1 { Some(&sums) } else { in_place.then_some(&own) };
                assert!(expected.is_none_or(|all| read(call.receive, whole) == all[..whole]), "reduce");
                call.operation = Operation::ReduceScatter;
                call.root = None;
                call.send = player.filled(&own);
                let at = player.rank * whole;
                call.receive = if in_place { player.offset(call.send, at) } else { player.device(whole) };
                player.run(&[call]).unwrap();
                assert!(read(call.receive, whole) == sums[at..at + whole], "reduce_scatter");
            });
        }
    }
}

/// A block that names its sender and its receiver.
fn block(from: usize, to: usize, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|index| (from * 50 + to * 11 + index) as u8).collect()
}

#[test]
fn moving_collectives() {
    for settings in ways() {
        for size in 1..=4 {
            play(&settings, size, |player| {
                for count in COUNTS {
                    for in_place in [false, true] {
                        all_gather(player, count, in_place);
                        all_to_all(player, count, in_place);
                        for root in 0..size {
                            broadcast(player, count, root, in_place);
                            gather(player, count, root, in_place);
                            scatter(player, count, root, in_place);
                        }
                    }
                    player.barrier().unwrap();
                }
            });
        }
    }
}

fn all_gather(player: &Player, count: usize, in_place: bool) {
    let mut call = Call::new(Operation::AllGather, count as u64, Datatype::Uint8);
    let own = block(player.rank, 0, count);
    call.receive = player.device(count * player.size);
    call.send = if in_place { player.offset(call.receive, player.rank * count) } else { player.device(count) };
    write(call.send, &own);
    player.run(&[call]).unwrap();
    let expected: Vec<u8> = (0..player.size).flat_map(|from| block(from, 0, count)).collect();
    assert_eq!(read(call.receive, expected.len()), expected);
}

fn all_to_all(player: &Player, count: usize, in_place: bool) {
    let mut call = Call::new(Operation::AllToAll, count as u64, Datatype::Uint8);
    let own: Vec<u8> = (0..player.size).flat_map(|to| block(player.rank, to, count)).collect();
    call.send = player.filled(&own);
    call.receive = if in_place { call.send } else { player.device(own.len()) };
    player.run(&[call]).unwrap();
    let expected: Vec<u8> = (0..player.size).flat_map(|from| block(from, player.rank, count)).collect();
    assert_eq!(read(call.receive, expected.len()), expected);
}

fn broadcast(player: &Player, count: usize, root: usize, in_place: bool) {
    let mut call = Call::new(Operation::Broadcast, count as u64, Datatype::Uint8);
    call.root = Some(root as u32);
    call.receive = player.device(count);
    if player.rank == root {
        call.send = if in_place { call.receive } else { player.device(count) };
        write(call.send, &block(root, 0, count));
    }
    player.run(&[call]).unwrap();
    assert_eq!(read(call.receive, count), block(root, 0, count));
}

fn gather(player: &Player, count: usize, root: usize, in_place: bool) {
    let mut call = Call::new(Operation::Gather, count as u64, Datatype::Uint8);
    call.root = Some(root as u32);
    if player.rank == root {
        call.receive = player.device(count * player.size);
    }
    call.send =
        if in_place && player.rank == root { player.offset(call.receive, root * count) } else { player.device(count) };
    write(call.send, &block(player.rank, 1, count));
    player.run(&[call]).unwrap();
    if player.rank == root {
        let expected: Vec<u8> = (0..player.size).flat_map(|from| block(from, 1, count)).collect();
        assert_eq!(read(call.receive, expected.len()), expected);
    }
}

fn scatter(player: &Player, count: usize, root: usize, in_place: bool) {
    let mut call = Call::new(Operation::Scatter, count as u64, Datatype::Uint8);
    call.root = Some(root as u32);
    call.receive = player.device(count);
    if player.rank == root {
        let all: Vec<u8> = (0..player.size).flat_map(|to| block(root, to, count)).collect();
        call.send = player.filled(&all);
        if in_place {
            call.receive = player.offset(call.send, root * count);
        }
    }
    player.run(&[call]).unwrap();
    assert_eq!(read(call.receive, count), block(root, player.rank, count));
}

/// Blocks that are streamed past the caches, with and without a part before the first cache line.
#[test]
fn large_blocks_arrive_whole() {
    for settings in ways().map(|settings| Settings { chunk_bytes: 1 << 20, ..settings }) {
        play(&settings, 3, |player| {
            all_gather(player, 3 << 20, false);
            all_gather(player, (3 << 20) + 41, true);
            all_to_all(player, 1 << 20, false);
            broadcast(player, (1 << 20) + 41, 1, false);
        });
    }
}

#[test]
fn nothing_to_do_needs_nobody() {
    for settings in ways() {
        play(&settings, 2, |player| {
            // Only one rank calls it.
            if player.rank == 0 {
                player.all_reduce(&[]).unwrap();
            }
            assert_eq!(player.all_reduce(&[player.rank as i32 + 1]).unwrap(), [3]);
        });
    }
}

#[test]
fn one_rank_alone_gets_its_bits_back() {
    for settings in ways() {
        play(&settings, 1, |player| {
            // In the slot beside the call, and beyond it.
            for bytes in [256, 1 << 16] {
                // Infinity and every NaN among them.
                let contribution: Vec<u8> = (0..bytes).map(|index| index as u8).collect();
                for operation in [Operation::AllReduce, Operation::Reduce, Operation::ReduceScatter] {
                    for in_place in [None, Some(0)] {
                        let mut call = reduction_call(player, operation, Datatype::Float8E5M2, ReductionOp::Sum, bytes);
                        call.root = (operation == Operation::Reduce).then_some(0);
                        (call.send, call.receive) = buffers(player, &contribution, bytes, in_place);
                        player.run(&[call]).unwrap();
                        assert!(read(call.receive, bytes) == contribution, "{operation} of {bytes} bytes");
                    }
                }
            }
        });
    }
}

#[test]
fn operations_run_in_the_order_of_issue_not_of_execution() {
    for settings in ways() {
        play(&settings, 2, |player| {
            let mut tickets: Vec<_> = (0..4).map(|_| player.communicator.ticket()).collect();
            std::thread::scope(|scope| {
                // The last ticket starts first on one rank and last on the other.
                if player.rank == 0 {
                    tickets.reverse();
                }
                for ticket in tickets {
                    scope.spawn(move || ticket.run(&[Call::new(Operation::Barrier, 0, Datatype::Uint8)]).unwrap());
                }
            });
        });
    }
}

#[test]
fn where_memory_is_to_stay_untouched_only_small_blocks_move() {
    let elements =
        |values: &[f64]| -> Vec<u8> { values.iter().flat_map(|value| encode(Datatype::Float32, *value)).collect() };
    for settings in ways() {
        let settings = Settings { most_moved: Some(8), ..settings };
        let results = play(&settings, 2, |player| {
            let mut call = Call::new(Operation::AllReduce, 4, Datatype::Float32);
            call.send = player.device(16);
            call.receive = player.device(16);
            call.reduction = Some(ReductionOp::Sum);
            write(call.send, &elements(&[1.0; 4]));
            write(call.receive, &elements(&[9.0; 4]));
            player.run(&[call]).unwrap();
            read(call.receive, 16)
        });
        assert_eq!(results, [elements(&[2.0, 2.0, 9.0, 9.0]), elements(&[2.0, 2.0, 9.0, 9.0])]);
    }
}
