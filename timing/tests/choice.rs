//! NCCL's choice and table against what is published of them: figures that a run of the real NCCL printed or measured.

use protocol::datatype::Operation;
use timing::machine::{Machine, Shape, Transport, preset, presets};
use timing::nccl::constants::{NEWEST, OLDEST, constants};
use timing::nccl::tuner::{self, Algorithm, Choice, Protocol};
use timing::nccl::{channels, printed};
use timing::physics::Physics;
use timing::{Launch, Limit, Settings};

fn machine(name: &str, nodes: u32, gpus: u32) -> Machine {
    preset(name).unwrap().taking(nodes, gpus)
}

fn choice(machine: &Machine, settings: &Settings, operation: Operation, bytes: u64) -> Choice {
    tuner::choose(&tuner::table(machine, settings, operation), machine, operation, bytes).unwrap()
}

fn version(minor: u32) -> Settings {
    Settings::default().with_version(Some(minor))
}

/// (n - 1) / n of the bytes in each direction, twice for an all-reduce.
fn bus(choice: &Choice, ranks: f64) -> f64 {
    choice.gbytes * 2.0 * (ranks - 1.0) / ranks
}

/// Channels in the logs that NVIDIA/nccl issues quote for these machines.
#[test]
fn channels_are_those_of_published_logs() {
    let newest = constants(NEWEST);
    let ring = |machine: &Machine| {
        let found = channels::ring(machine, &newest);
        (found.count, found.intra)
    };
    assert_eq!(ring(&machine("dgx-a100", 1, 8)), (12, 20.0));
    assert_eq!(ring(&machine("dgx-h100", 1, 8)), (12, 30.0));
    assert_eq!(ring(&machine("dgx-h100", 2, 8)), (8, 48.0));
    let nvls = channels::nvls(&machine("dgx-h100", 1, 8), &newest).unwrap();
    assert_eq!((nvls.count, nvls.intra), (8, 40.0));
    let nvls = channels::nvls(&machine("dgx-b200", 1, 8), &newest).unwrap();
    assert_eq!((nvls.count, nvls.intra), (8, 80.0));
    assert_eq!(channels::nvls(&machine("dgx-a100", 1, 8), &newest), None);
}

/// Bus bandwidths that 8 x H100, 16 x H100 and 8 x A100 reach (nccl-tests, published), from NCCL's own table.
#[test]
fn the_table_has_the_bus_bandwidths_of_real_machines() {
    let large = 8 << 30;
    let near = |machine: Machine, algorithm: &str, expected: f64| {
        let settings = Settings::read([("NCCL_ALGO", algorithm)]).unwrap();
        let choice = choice(&machine, &settings, Operation::AllReduce, large);
        let bus = bus(&choice, f64::from(machine.ranks()));
        assert!((bus / expected - 1.0).abs() < 0.03, "{}: {bus} instead of {expected}", machine.name);
    };
    near(machine("dgx-h100", 1, 8), "nvls", 473.0);
    near(machine("dgx-h100", 2, 8), "nvlstree", 469.0);
    near(machine("dgx-h100", 4, 8), "nvlstree", 366.0);
    near(machine("dgx-a100", 1, 8), "ring", 235.0);
    near(machine("dgx-h100", 4, 8), "ring", 385.0);
}

/// A sweep of GPU counts on one node (NCCL 2.27.7, 8 GiB all-reduce): NVLS is chosen from 5 GPUs on H200, from 6 on B200.
#[test]
fn nvls_wins_from_as_many_gpus_as_on_hardware() {
    for (name, first) in [("hgx-h200", 5), ("dgx-b200", 6)] {
        for gpus in 2..=8 {
            let choice = choice(&machine(name, 1, gpus), &version(27), Operation::AllReduce, 8 << 30);
            assert_eq!(choice.algorithm == Algorithm::Nvls, gpus >= first, "{name} with {gpus}: {choice:?}");
        }
    }
}

/// 8 bytes over InfiniBand: 24.9 us on 2 x 8 H100 and 34.8 us on 4 x 8, measured.
#[test]
fn a_small_message_costs_its_steps() {
    for (nodes, measured) in [(2, 24.9), (4, 34.8)] {
        let choice = choice(&machine("dgx-h100", nodes, 8), &Settings::default(), Operation::AllReduce, 8);
        assert_eq!((choice.algorithm, choice.protocol), (Algorithm::Tree, Protocol::Ll));
        assert!((choice.latency_us / measured - 1.0).abs() < 0.05, "{choice:?}");
    }
}

#[test]
fn variables_change_the_choice_as_they_change_nccl() {
    let machine = machine("dgx-h100", 1, 8);
    let read = |name: &str, value: &str| Settings::read([(name, value)]);
    let algorithm = |name: &str, value: &str| {
        choice(&machine, &read(name, value).unwrap(), Operation::AllReduce, 1 << 30).algorithm
    };
    assert_eq!(algorithm("NCCL_NVLS_ENABLE", "0"), Algorithm::Ring);
    assert_eq!(algorithm("NCCL_ALGO", "tree"), Algorithm::Tree);
    assert_eq!(algorithm("NCCL_ALGO", "^nvls"), Algorithm::Ring);
    assert_eq!(algorithm("NCCL_ALGO", "allgather:tree"), Algorithm::Nvls);
    assert_eq!(algorithm("NCCL_ALGO", "ring,tree;allreduce:nvls"), Algorithm::Nvls);
    let protocol = choice(&machine, &read("NCCL_PROTO", "LL128").unwrap(), Operation::AllReduce, 1 << 30).protocol;
    assert_eq!(protocol, Protocol::Ll128);
    assert_eq!(
        read("NCCL_ALGO", "rings").unwrap_err(),
        "NCCL_ALGO: `rings` is none of Tree, Ring, CollNetDirect, CollNetChain, NVLS, NVLSTree, PAT"
    );
    assert_eq!(read("NCCL_NVLS_ENABLE", "yes").unwrap_err(), "NCCL_NVLS_ENABLE: `yes` is not a number");
    assert_eq!(read("NCCL_CROSS_NIC", "1").unwrap().unread, ["NCCL_CROSS_NIC"]);
    assert!(read("NCCL_DEBUG", "INFO").unwrap().unread.is_empty() && read("PATH", "x").unwrap().unread.is_empty());
    let none = read("NCCL_ALGO", "PAT").unwrap();
    let physics = Physics::default();
    assert_eq!(timing::estimate(&machine, &none, &physics, Operation::AllReduce, 8, Launch::ProcessPerGpu), None);
}

/// What release notes and tags say of single versions.
#[test]
fn versions_differ_where_nccl_changed() {
    let hopper = machine("dgx-h100", 1, 8);
    let nvls = |minor: u32| {
        tuner::table(&hopper, &version(minor), Operation::AllReduce)
            .iter()
            .any(|choice| choice.algorithm == Algorithm::Nvls)
    };
    assert_eq!([17, 18, 30].map(nvls), [false, true, true]);
    assert_eq!(constants(12).base[1], [3.6, 10.0, 8.4]);
    assert_eq!(constants(20).ring_ll, 0.25);
    assert_eq!(constants(21).ring_ll, 0.5);
    assert_eq!(constants(99), constants(NEWEST));
    assert_eq!(constants(2), constants(OLDEST));
}

#[test]
fn every_preset_answers_for_every_collective_and_size() {
    let physics = Physics::default();
    let operations = [
        Operation::AllReduce,
        Operation::AllGather,
        Operation::ReduceScatter,
        Operation::Broadcast,
        Operation::Reduce,
        Operation::AllToAll,
        Operation::Send,
    ];
    for name in presets() {
        let full = preset(name).unwrap();
        for (nodes, gpus) in [(1, 2), (1, full.gpus_per_node), (2, full.gpus_per_node), (4, full.gpus_per_node), (2, 1)]
        {
            let machine = full.clone().taking(nodes, gpus);
            for operation in operations {
                let mut before = 0.0;
                for power in 3..=34 {
                    let answer = timing::estimate(
                        &machine,
                        &Settings::default(),
                        &physics,
                        operation,
                        1 << power,
                        Launch::PyTorch,
                    );
                    let us = answer.unwrap_or_else(|| panic!("{name} {nodes}x{gpus} {operation}")).us;
                    assert!(us.is_finite() && us > 0.0, "{name} {nodes}x{gpus} {operation} 2^{power}: {us}");
                    // A switch of algorithm may gain, never halve.
                    assert!(us > 0.5 * before, "{name} {nodes}x{gpus} {operation} 2^{power}: {us} after {before}");
                    before = us;
                }
            }
        }
    }
}

#[test]
fn the_limit_is_the_narrowest_link() {
    let physics = Physics::default();
    let limit = |machine: &Machine, bytes: u64| {
        timing::estimate(machine, &Settings::default(), &physics, Operation::AllReduce, bytes, Launch::ProcessPerGpu)
            .unwrap()
            .limit
    };
    assert_eq!(limit(&machine("dgx-h100", 2, 8), 8), Limit::Latency);
    assert_eq!(limit(&machine("dgx-h100", 1, 8), 1 << 30), Limit::NvLink);
    assert_eq!(limit(&machine("p4d", 4, 8), 1 << 30), Limit::Network);
    assert_eq!(limit(&machine("pcie-box", 1, 4), 1 << 30), Limit::Pcie);
    assert_eq!(machine("pcie-box", 1, 4).shape, Shape::None);
}

/// The log of NCCL 2.29.7 for two processes that are two nodes to it (`NCCL_HOSTID`), each with a GPU of compute capability 12.0 on PCIe,
/// joined by sockets with two channels of 1.2 GB/s: of the rates that its search tries the one below 10 Gbit/s, which it takes for an
/// interface that reports no speed. Of what it turns off it prints the latency,
/// too.
#[test]
fn the_table_is_that_of_a_published_log() {
    let mut machine = machine("pcie-box", 2, 1);
    (machine.capability, machine.transport, machine.nics, machine.nic_gbps) = (120, Transport::Sockets, 2, 9.6);
    let lines = printed::lines(&machine, &version(29));
    let none = "     0.0/   0.0 |     0.0/   0.0 |     0.0/   0.0 |";
    let expected = [
        "  Algorithm   |                            Tree                  |                            Ring                  |                            NVLS                  |".to_owned(),
        "  Protocol    |             LL |          LL128 |         Simple |             LL |          LL128 |         Simple |             LL |          LL128 |         Simple |".to_owned(),
        format!("    Broadcast |{none}     9.3/   1.2 |     0.0/   0.0 |    22.4/   2.4 |{none}"),
        format!("       Reduce |{none}     9.3/   1.2 |     0.0/   0.0 |    22.4/   2.4 |{none}"),
        format!("    AllGather |{none}    11.6/   2.4 |     0.0/   0.0 |    22.4/   4.8 |{none}"),
        format!("ReduceScatter |{none}    11.6/   2.4 |     0.0/   0.0 |    22.4/   4.8 |{none}"),
        format!("    AllReduce |    16.8/   0.5 |     0.0/   0.0 |    36.4/   1.9 |    16.6/   1.2 |     0.0/   0.0 |    36.4/   2.4 |{none}"),
        "  Algorithm   |                        NVLSTree                  |".to_owned(),
    ];
    for (line, expected) in lines.iter().zip(&expected) {
        assert_eq!(line, expected);
    }
    assert_eq!(lines.len(), 14);
}

#[test]
fn variables_leave_a_part_of_the_machine() {
    let used = |name: &str, value: &str| Settings::read([(name, value)]).unwrap().used(machine("dgx-h100", 2, 8));
    let whole = machine("dgx-h100", 2, 8);
    for (name, value) in
        [("NCCL_P2P_DISABLE", "0"), ("NCCL_P2P_LEVEL", "NVL"), ("NCCL_IB_DISABLE", "0"), ("NCCL_NET", "IB")]
    {
        assert_eq!(used(name, value), whole, "{name}={value}");
    }
    for (name, value) in [("NCCL_P2P_DISABLE", "1"), ("NCCL_P2P_LEVEL", "LOC")] {
        assert_eq!(used(name, value).shape, Shape::None, "{name}={value}");
    }
    for (name, value) in [("NCCL_IB_DISABLE", "1"), ("NCCL_NET", "Socket")] {
        assert_eq!(used(name, value).transport, Transport::Sockets, "{name}={value}");
    }
    assert!(whole.gpudirect && !used("NCCL_NET_GDR_LEVEL", "LOC").gpudirect);
    // A plugin is not NCCL's own transport.
    let plugin = Settings::read([("NCCL_IB_DISABLE", "1")]).unwrap().used(machine("p5", 2, 8));
    assert_eq!(plugin.transport, Transport::Efa2);
}
