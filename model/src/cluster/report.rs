//! The books as a cluster report.

use std::collections::{BTreeMap, BTreeSet};

use protocol::datatype::Operation;
use protocol::fault::FaultRecord;
use protocol::finding::FindingKind;
use protocol::ids::{CommunicatorId, Rank};
use protocol::record::ErrorCode;
use protocol::report::{
    COLLECTIVES, ClusterReport, ClusterSection, CollectiveTotals, CommunicatorSection, Direction, FailureEvent,
    Finding, FindingSite, GpuChange, InjectedFault, LinkScope, LinkTotals, Measured, MeasuredFailure,
    MeasuredOperation, MeasuredRank, MeasuredRecovery, NodePair, OperationKind, PointToPointTotals, RankTotals,
    RecoveryEvent, Resilience, SCHEMA_VERSION, Timeline, TimelineEntry,
};
use protocol::site::CallSite;

use super::{Cluster, findings};
use crate::communicator::Communicator;
use crate::cost::{MODEL, throughput_gbps};
use crate::failure::Failure;
use crate::ledger::{NO_SEQUENCE, Traffic};
use crate::replicas::Divergence;
use crate::resize::Recovery;
use crate::site::Call;
use crate::topology::Topology;

/// Clusters with more nodes than this list only the node pairs that saw traffic.
const MAX_NODES_WITH_IDLE_PAIRS: usize = 64;

/// The call of ranks whose replicas differ.
const STEP: &str = "optimizer.step";

/// What a report says about the run besides what happened in it.
#[derive(Clone, Debug, Default)]
pub struct RunFacts {
    /// Version of the tool.
    pub tool_version: String,
    /// "unix" or "tcp".
    pub transport: String,
    /// Where the coordinator listens.
    pub address: String,
    /// The directory from which files of the program are named, if they lie there.
    pub source_root: Option<String>,
    /// The cluster file, if there is one.
    pub config_path: Option<String>,
    /// Where the Markdown report goes, if anywhere.
    pub markdown_report_path: Option<String>,
    /// Wall clock when the machine's monotonic clock was zero, us since 1970.
    pub monotonic_zero_us: Option<u64>,
}

impl Cluster {
    /// The report as of now.
    pub fn report(&self, facts: &RunFacts) -> ClusterReport {
        let order = self.canonical_order();
        let number = self.numbers();
        let (operation_timeline, operations, began_ns) = self.timeline(&order, &number);
        let (mut resilience, failures) = self.resilience(&number);
        let sites = self.finding_sites(&number, facts.source_root.as_deref());
        let (recovery_events, recoveries) = self.recoveries(&number);
        resilience.recovery_count = recovery_events.len() as u64;
        resilience.recovery_events = recovery_events;
        let measured_links = self.paths.links(self.settings.plan.as_ref());
        let (mut findings, finding_times) = findings::numbered(
            self.order_findings(&number, facts.source_root.as_deref())
                .into_iter()
                .chain(findings::from_events(
                    &resilience.failure_events,
                    &failures,
                    sites,
                    self.settings.plan.as_ref(),
                    &measured_links,
                ))
                .chain(self.replica_findings(facts.source_root.as_deref())),
            facts.monotonic_zero_us,
        );
        findings.iter_mut().for_each(|finding| finding.processes = self.processes_of(finding, &number));
        let ledger = &self.ledger;
        ClusterReport {
            schema_version: SCHEMA_VERSION.to_owned(),
            model: MODEL.to_owned(),
            cluster: self.cluster_section(facts),
            communicators: self.communicator_sections(&order, &number),
            collectives: COLLECTIVES
                .into_iter()
                .map(|operation| {
                    let totals = ledger.collectives.get(&operation).copied().unwrap_or_default();
                    (
                        operation.name().to_owned(),
                        CollectiveTotals {
                            calls: totals.calls,
                            bytes: totals.bytes,
                            estimated_time_us_total: rounded(totals.time.us()),
                            contention_penalty_us_total: rounded(totals.penalty.us()),
                        },
                    )
                })
                .collect(),
            point_to_point: PointToPointTotals {
                operations: ledger.point_to_point.calls,
                sends: ledger.point_to_point.calls,
                bytes: ledger.point_to_point.bytes,
                estimated_time_us_total: rounded(ledger.point_to_point.time.us()),
                contention_penalty_us_total: rounded(ledger.point_to_point.penalty.us()),
            },
            links: self.links(),
            node_pairs: self.node_pairs(),
            ranks: self.ranks(),
            findings,
            notes: self.notes(&number, facts.source_root.as_deref()),
            resilience,
            hang: self.hang.as_ref().map(|found| found.hang_below(facts.source_root.as_deref())),
            // The runner adds it, from the reports of the devices.
            time: None,
            operation_timeline,
            measured: Measured {
                tool_version: facts.tool_version.clone(),
                config_path: facts.config_path.clone(),
                markdown_report_path: facts.markdown_report_path.clone(),
                coordinator_address: facts.address.clone(),
                source_root: facts.source_root.clone(),
                ranks: self.measured_ranks(),
                links: measured_links,
                operations_began_at_ms: began_ns
                    .zip(facts.monotonic_zero_us)
                    .map(|(ns, zero)| (zero + ns / 1000) / 1000),
                operations,
                findings: finding_times,
                failures,
                recoveries,
                hang_waits_ms: self.hang.as_ref().map(|found| found.waited_us.iter().map(|us| us / 1000).collect()),
                replicas: self.replicas.compared(),
            },
        }
    }

    fn recoveries(
        &self,
        number: &BTreeMap<CommunicatorId, CommunicatorId>,
    ) -> (Vec<RecoveryEvent>, Vec<MeasuredRecovery>) {
        let mut recoveries: Vec<_> = self.recoveries.iter().collect();
        recoveries.sort_by_key(|recovery| (number[&recovery.parent], recovery.sequence, number[&recovery.child]));
        let event = |(index, recovery): (u64, &&Recovery)| {
            let event = RecoveryEvent {
                index,
                parent_comm_id: number[&recovery.parent],
                new_comm_id: number[&recovery.child],
                seqno: recovery.sequence,
                abort_parent: recovery.abort,
                excluded_ranks: recovery.excluded.clone(),
                surviving_ranks: recovery.survivors.clone(),
            };
            (event, MeasuredRecovery { index, recovery_time_us: recovery.time_us as f64 })
        };
        (1..).zip(&recoveries).map(event).unzip()
    }

    fn cluster_section(&self, facts: &RunFacts) -> ClusterSection {
        let plan = self.settings.plan.as_ref();
        let largest = self.communicators.values().map(|communicator| communicator.size()).max();
        ClusterSection {
            name: plan.map(|plan| plan.name.clone()),
            default_backend: plan.map(|plan| plan.default_backend.clone()),
            mode: if self.ledger.is_proxy() { "proxy" } else { "simulate" }.to_owned(),
            world_size: largest.or(plan.map(|plan| plan.world_size())).unwrap_or(0),
            node_count: plan.map_or(0, |plan| plan.nodes.len() as u32),
            communicators: self.communicators.len() as u32,
            coordinator_transport: facts.transport.clone(),
        }
    }

    fn communicator_sections(
        &self,
        order: &[CommunicatorId],
        number: &BTreeMap<CommunicatorId, CommunicatorId>,
    ) -> Vec<CommunicatorSection> {
        order
            .iter()
            .map(|id| {
                let communicator = &self.communicators[id];
                let (collectives, transfers) = self.ledger.completed(*id);
                CommunicatorSection {
                    comm_id: number[id],
                    parent_comm_id: communicator.parent.map(|parent| number[&parent]),
                    ranks: communicator.global_ranks(),
                    collectives,
                    transfers,
                }
            })
            .collect()
    }

    fn links(&self) -> Vec<LinkTotals> {
        let Some(topology) = &self.ledger.topology else { return Vec::new() };
        let names = topology.node_names();
        let link = |(&(src, dst), traffic): (&(usize, usize), &Traffic)| {
            let scope = topology.scope(src, dst);
            let fabric = topology.fabric(scope);
            LinkTotals {
                src: names[src].clone(),
                dst: names[dst].clone(),
                scope,
                samples: traffic.samples,
                operations: traffic.collectives + traffic.transfers,
                collective_operations: traffic.collectives,
                point_to_point_operations: traffic.transfers,
                bytes: traffic.bytes,
                peak_bytes_per_operation: traffic.peak_bytes,
                bandwidth_gbps: rounded(fabric.bandwidth_gbps),
                avg_latency_us: rounded(fabric.latency_us),
                estimated_time_us_total: rounded(traffic.time.us()),
                contention_penalty_us_total: rounded(traffic.penalty.us()),
                average_estimated_throughput_gbps: rounded(throughput_gbps(traffic.bytes, traffic.time)),
                peak_estimated_throughput_gbps: rounded(traffic.peak_gbps),
            }
        };
        self.ledger.links.iter().map(link).collect()
    }

    fn node_pairs(&self) -> Vec<NodePair> {
        let Some(topology) = &self.ledger.topology else { return Vec::new() };
        let names = topology.node_names();
        let mut by_name: Vec<usize> = (0..names.len()).collect();
        by_name.sort_by(|left, right| names[*left].cmp(&names[*right]));
        let mut pairs = Vec::new();
        if names.len() > MAX_NODES_WITH_IDLE_PAIRS {
            let mut seen: Vec<(usize, usize)> = self
                .ledger
                .pairs
                .keys()
                .map(|&(one, other)| if names[one] < names[other] { (one, other) } else { (other, one) })
                .collect();
            seen.sort_by_key(|&(a, b)| (&names[a], &names[b]));
            pairs.extend(seen.into_iter().map(|(a, b)| self.node_pair(topology, a, b)));
        } else {
            for (position, &a) in by_name.iter().enumerate() {
                pairs.extend(by_name[position + 1..].iter().map(|&b| self.node_pair(topology, a, b)));
            }
        }
        pairs
    }

    fn node_pair(&self, topology: &Topology, a: usize, b: usize) -> NodePair {
        let fabric = topology.fabric(LinkScope::InterNode);
        let direction = |src, dst| {
            let traffic = self.ledger.links.get(&(src, dst)).copied().unwrap_or_default();
            Direction {
                transfers: traffic.samples,
                total_bytes: traffic.bytes,
                peak_bytes_per_operation: traffic.peak_bytes,
                model_bandwidth_gbps: rounded(fabric.bandwidth_gbps),
                avg_latency_us: rounded(fabric.latency_us),
                estimated_time_us_total: rounded(traffic.time.us()),
                contention_penalty_us_total: rounded(traffic.penalty.us()),
                average_estimated_throughput_gbps: rounded(throughput_gbps(traffic.bytes, traffic.time)),
                peak_estimated_throughput_gbps: rounded(traffic.peak_gbps),
            }
        };
        let both = self.ledger.pairs.get(&(a.min(b), a.max(b))).copied().unwrap_or_default();
        NodePair {
            node_a: topology.node_names()[a].clone(),
            node_b: topology.node_names()[b].clone(),
            scope: LinkScope::InterNode,
            a_to_b: direction(a, b),
            b_to_a: direction(b, a),
            operations: both.collectives + both.transfers,
            collective_operations: both.collectives,
            point_to_point_operations: both.transfers,
            total_bytes: both.bytes,
            peak_combined_bytes_per_operation: both.peak_bytes,
            estimated_time_us_total: rounded(both.time.us()),
            contention_penalty_us_total: rounded(both.penalty.us()),
            average_estimated_throughput_gbps: rounded(throughput_gbps(both.bytes, both.time)),
            peak_estimated_throughput_gbps: rounded(both.peak_gbps),
        }
    }

    /// The configured ranks and those that came without being configured.
    fn known_ranks(&self) -> Vec<Rank> {
        let configured = self.ledger.topology.as_ref().map_or(0, Topology::world_size);
        let extra = self.ledger.ranks.keys().copied().filter(|rank| rank.0 >= configured);
        (0..configured).map(Rank).chain(extra).collect()
    }

    fn ranks(&self) -> Vec<RankTotals> {
        let topology = self.ledger.topology.as_ref();
        let node = |rank| topology.and_then(|topology| Some(topology.node_names()[topology.node_of(rank)?].clone()));
        let totals = |rank: Rank| {
            let counts = self.ledger.ranks.get(&rank).cloned().unwrap_or_default();
            RankTotals {
                rank,
                node: node(rank),
                timeouts: counts.timeouts,
                communicator_inits: counts.inits,
                collective_calls: counts.collectives,
                point_to_point_calls: counts.transfers,
                barrier_calls: counts.barriers,
            }
        };
        self.known_ranks().into_iter().map(totals).collect()
    }

    fn measured_ranks(&self) -> Vec<MeasuredRank> {
        let measured = |rank: Rank| {
            let counts = self.ledger.ranks.get(&rank).cloned().unwrap_or_default();
            MeasuredRank {
                rank,
                pids: counts.pids.into_iter().collect(),
                wait_time_ms: rounded(counts.wait_us / 1000.0),
            }
        };
        self.known_ranks().into_iter().map(measured).collect()
    }

    fn timeline(
        &self,
        order: &[CommunicatorId],
        number: &BTreeMap<CommunicatorId, CommunicatorId>,
    ) -> (Timeline, Vec<MeasuredOperation>, Option<u64>) {
        let last = self.ledger.timeline.last(order);
        let dropped = self.ledger.timeline.total() - last.len() as u64;
        let spans = last.iter().flat_map(|(.., entry)| entry.spans.iter().flatten());
        let began_ns = spans.map(|span| span.began_ns).min();
        let since = |ns: u64| rounded(ns.saturating_sub(began_ns.unwrap_or_default()) as f64 / 1000.0);
        let mut measured = Vec::with_capacity(last.len());
        let mut entries = Vec::with_capacity(last.len());
        for (index, (id, (sequence, kind, _), entry)) in (dropped + 1..).zip(&last) {
            let operation = match kind {
                OperationKind::PointToPoint => "send_recv",
                OperationKind::Collective | OperationKind::Barrier | OperationKind::OneSided => entry.operation.name(),
            };
            entries.push(TimelineEntry {
                index,
                comm_id: number[id],
                seqno: *sequence,
                kind: *kind,
                operation: operation.to_owned(),
                data_type: entry.datatype,
                reduce_op: entry.reduction_op,
                root: entry.root,
                count: entry.count,
                buffer_transport: entry.transport,
                ranks: entry.ranks.clone(),
                logical_payload_bytes: entry.bytes,
                modeled_time_us: rounded(entry.time.us()),
            });
            measured.push(MeasuredOperation {
                index,
                rendezvous_wait_us: rounded(entry.wait_us),
                execution_time_us: rounded(entry.execute_us),
                began_us: entry.spans.iter().map(|span| span.map(|span| since(span.began_ns))).collect(),
                ended_us: entry.spans.iter().map(|span| span.map(|span| since(span.ended_ns))).collect(),
            });
        }
        let timeline = Timeline { retained_entries: entries.len() as u64, dropped_entries: dropped, entries };
        (timeline, measured, began_ns)
    }

    /// The failures in the order of the report.
    fn sorted_failures(&self, number: &BTreeMap<CommunicatorId, CommunicatorId>) -> Vec<&Failure> {
        let mut failures: Vec<_> = self.failures.events().collect();
        // Stable: what the key does not order keeps the order of arrival.
        failures.sort_by_key(|failure| {
            let comm_id = failure.communicator.map(|id| number[&id]);
            (comm_id, failure.sequence, failure.code.source(), failure.observed.clone(), failure.code)
        });
        failures
    }

    /// When each failure was noticed (us), and where its ranks were in the program; in the order of the report.
    fn finding_sites(
        &self,
        number: &BTreeMap<CommunicatorId, CommunicatorId>,
        root: Option<&str>,
    ) -> Vec<(u64, Vec<FindingSite>)> {
        let of = |failure: &Failure| {
            let mut calls: BTreeMap<Rank, (&Call, bool)> =
                failure.calls.iter().map(|(rank, call)| (*rank, (call, false))).collect();
            // Ranks that did not come: what they did before.
            if let Some(communicator) = failure.communicator.map(|id| &self.communicators[&id]) {
                for rank in &failure.culprits {
                    let global = communicator.global_rank(*rank).unwrap_or(*rank);
                    if let Some(call) = self.sites.last(communicator.id, *rank) {
                        calls.entry(global).or_insert((call, true));
                    }
                }
            }
            let site =
                |(rank, (call, completed)): (Rank, (&Call, bool))| self.finding_site(rank, call, completed, root);
            (failure.at_us, calls.into_iter().filter_map(site).collect())
        };
        self.sorted_failures(number).into_iter().map(of).collect()
    }

    /// The processes of the ranks at fault, unless these are the same.
    fn processes_of(&self, finding: &Finding, number: &BTreeMap<CommunicatorId, CommunicatorId>) -> Vec<Rank> {
        let is_meant = |id: &CommunicatorId| finding.comm_id.is_some() && number.get(id).copied() == finding.comm_id;
        let known = self.communicators.iter().find(|(id, _)| is_meant(id));
        let processes = known.map(|(_, communicator)| communicator.processes_of(&finding.ranks));
        processes.filter(|processes| *processes != finding.ranks).unwrap_or_default()
    }

    /// Findings about replicas that differ, each with its time in us.
    fn replica_findings(&self, root: Option<&str>) -> Vec<(u64, Finding)> {
        let site = |(rank, call): (&Rank, &Call)| {
            Some(FindingSite { operation: STEP.to_owned(), ..self.finding_site(*rank, call, false, root)? })
        };
        let finding = |divergence: &Divergence| Finding {
            index: 0,
            kind: FindingKind::ReplicasDiffer,
            sentence: findings::of_replicas(divergence),
            comm_id: None,
            seqno: NO_SEQUENCE,
            operation: STEP.to_owned(),
            ranks: divergence.ranks.clone(),
            processes: Vec::new(),
            observed_ranks: Vec::new(),
            sites: divergence.calls.iter().filter_map(site).collect(),
        };
        self.replicas.found().into_iter().map(|divergence| (divergence.at_us, finding(divergence))).collect()
    }

    /// Where `rank` made a call, if that is known.
    pub(super) fn finding_site(
        &self,
        rank: Rank,
        call: &Call,
        completed: bool,
        root: Option<&str>,
    ) -> Option<FindingSite> {
        let CallSite { file, line, function, .. } = self.sites.place(call)?.clone();
        let operation = call.operation.map_or("init", Operation::name).to_owned();
        Some(FindingSite { rank, operation, seqno: call.sequence, completed, file, line, function }.below(root))
    }

    fn resilience(&self, number: &BTreeMap<CommunicatorId, CommunicatorId>) -> (Resilience, Vec<MeasuredFailure>) {
        let failures = self.sorted_failures(number);
        let mut events = Vec::with_capacity(failures.len());
        let mut measured = Vec::with_capacity(failures.len());
        for (index, failure) in (1..).zip(failures) {
            let communicator = failure.communicator.map(|id| &self.communicators[&id]);
            let global = |rank: Rank| match communicator {
                Some(communicator) => communicator.global_rank(rank).unwrap_or(rank),
                None => rank,
            };
            let culprits = self.culprits(failure, communicator);
            let local_rank = culprits.first().copied();
            let nothing = if communicator.is_some() { "none" } else { "init" };
            events.push(FailureEvent {
                index,
                comm_id: failure.communicator.map(|id| number[&id]),
                seqno: failure.sequence,
                local_rank,
                global_rank: communicator.and(local_rank).map(global),
                culprits: culprits.into_iter().map(global).collect(),
                source: failure.code.source(),
                operation: failure.operation().map_or(nothing, |operation| operation.name()).to_owned(),
                error_code: failure.code,
                observed_ranks: failure.observed.iter().copied().collect(),
                attempted_payload_bytes: failure.attempted_bytes(),
            });
            measured.push(MeasuredFailure { index, error_detail: failure.detail.clone() });
        }
        let resilience = Resilience {
            failure_count: events.len() as u64,
            recovery_count: 0,
            failure_events: events,
            recovery_events: Vec::new(),
            injected_faults: self.fired.records().map(|record| self.injected(record, number)).collect(),
        };
        (resilience, measured)
    }

    /// The ranks of the communicator that are to blame for a failure. If a host is unreachable, the rank that is named first
    /// depends on timing, so all ranks on it are to blame. If two hosts cannot reach each other, the one that notices first
    /// depends on timing, so both are.
    fn culprits(&self, failure: &Failure, communicator: Option<&Communicator>) -> BTreeSet<Rank> {
        let known = failure.culprits.clone();
        let (ErrorCode::Unreachable, Some(communicator), Some(plan)) =
            (failure.code, communicator, self.settings.plan.as_ref())
        else {
            return known;
        };
        let node = |global: Rank| plan.node_of(global).map(|(index, _)| index);
        let local_node = |rank: Rank| node(communicator.global_rank(rank)?);
        let mut nodes: BTreeSet<usize> = known.iter().filter_map(|rank| local_node(*rank)).collect();
        let alive: BTreeSet<usize> = failure.observed.iter().filter_map(|rank| node(*rank)).collect();
        if nodes.is_subset(&alive) {
            nodes.extend(failure.witnesses.iter().filter_map(|rank| local_node(*rank)));
        }
        let there = (0..communicator.size())
            .map(Rank)
            .filter(|rank| local_node(*rank).is_some_and(|node| nodes.contains(&node)));
        there.chain(known.iter().copied()).collect()
    }

    fn injected(&self, record: &FaultRecord, number: &BTreeMap<CommunicatorId, CommunicatorId>) -> InjectedFault {
        let gpu = self.fired.gpu_event(record.number).map(|event| GpuChange {
            gpu: event.gpu.clone(),
            health: event.health.to_string(),
            is_fatal: event.health.is_fatal(),
        });
        InjectedFault {
            index: record.number.into(),
            kind: record.kind,
            rank: record.rank,
            comm_id: record.collective.map(|(id, ..)| number[&id]),
            seqno: record.collective.map_or(NO_SEQUENCE, |(_, sequence, _)| sequence),
            operation: record.collective.map_or("none", |(.., operation)| operation.name()).to_owned(),
            gpu,
        }
    }
}

/// Three decimals, the precision of the report.
fn rounded(number: f64) -> f64 {
    (number * 1000.0).round() / 1000.0
}
