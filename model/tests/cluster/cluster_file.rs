//! Cluster files: what is read out of good ones, and that each mistake of a bad one is named with its place.

use model::cluster_file::parse;
use protocol::ids::Rank;

const LONG: &str = r#"# two nodes
version: 1
cluster:
  name: "dev # cluster"
  default_backend: nccl
nodes:
  - id: node0
    host: 127.0.0.1
    ranks: [0, 1]
    gpus:
      - profile: a100
      - profile: a100
  - {id: node1, host: 127.0.0.1, gpus: [{profile: H100}, {profile: h100.yaml}], ranks: [2, 3]}
fabric:
  intra_node: {type: nvlink, bandwidth_gbps: 300, latency_us: 3}
  inter_node:
    type: infiniband
    bandwidth_gbps: 200
    latency_us: 15
    oversubscription: 1.5
"#;

fn no_profiles(path: &str) -> Result<String, String> {
    Err(format!("no file {path} in this test"))
}

/// `LINE:COLUMN: message` of every mistake.
fn mistakes(text: &str) -> Vec<String> {
    let mistakes = parse("c.yaml", text, &no_profiles).expect_err("the file has mistakes");
    mistakes.iter().map(|mistake| mistake.to_string().split_once(':').unwrap().1.to_owned()).collect()
}

#[test]
fn the_long_form() {
    let plan = parse("c.yaml", LONG, &no_profiles).unwrap();
    assert_eq!(plan.name, "dev # cluster");
    assert_eq!(plan.world_size(), 4);
    let gpus: Vec<_> = plan.gpus().into_iter().map(|(rank, profile)| (rank.0, profile)).collect();
    assert_eq!(gpus, [(0, "a100"), (1, "a100"), (2, "h100"), (3, "h100")]);
    assert_eq!((plan.intra_node.oversubscription, plan.inter_node.oversubscription), (1.0, 1.5));
}

#[test]
fn the_short_form_expands_to_the_long_one() {
    let plan = parse("c.yaml", "nodes: 2\ngpus_per_node: 4\nprofile: h100\n", &no_profiles).unwrap();
    assert_eq!(plan.nodes.len(), 2);
    assert_eq!(plan.nodes[1].id, "node1");
    assert_eq!(plan.nodes[1].ranks, [4, 5, 6, 7].map(Rank));
    assert_eq!(plan.nodes[1].gpus, ["h100"; 4]);
    assert_eq!((plan.intra_node.kind.as_str(), plan.inter_node.latency_us), ("nvlink", 15.0));
    let own = "{name: x, nodes: 1, gpus_per_node: 1, profile: t4-no, fabric: {inter_node: {type: e, bandwidth_gbps: 1, latency_us: 0}}}";
    assert_eq!(mistakes(own).len(), 1);
}

#[test]
fn all_mistakes_at_once_in_the_order_of_the_file() {
    let text = LONG
        .replace("version: 1", "version: 2")
        .replace("id: node1", "id: node0")
        .replace("ranks: [2, 3]", "ranks: [1, 3]")
        .replace("H100", "h1000")
        .replace("bandwidth_gbps: 200", "bandwith_gbps: 200")
        .replace("latency_us: 15", "latency_us: -1");
    assert_eq!(
        mistakes(&text),
        [
            "2:10: `version` is not a known one",
            "13:10: duplicate node id `node0`",
            "13:51: unknown GPU profile `h1000`; did you mean `h100`?",
            "13:90: duplicate rank detected: 1",
            "16:3: `bandwidth_gbps` is missing",
            "18:5: unknown key `bandwith_gbps` in `inter_node`",
            "19:17: `latency_us` must be a non-negative number",
        ]
    );
}

#[test]
fn each_rule_has_its_message() {
    for (from, to, expected) in [
        ("ranks: [2, 3]", "ranks: [2, 4]", "ranks must be contiguous from 0 to 3"),
        ("ranks: [2, 3]", "ranks: [2]", "2 gpus for 1 ranks"),
        ("ranks: [2, 3]", "ranks: 2", "`ranks` must be a list, found a whole number"),
        ("ranks: [2, 3]", "ranks: [two, 3]", "`rank` must be a whole number, found text"),
        ("ranks: [2, 3]", "ranks: []", "`ranks` is empty"),
        ("fabric:", "policies: {}\nfabric:", "`policies` has no effect"),
        ("fabric:", "fabrics:", "unknown key `fabrics`"),
        ("oversubscription: 1.5", "oversubscription: 0", "`oversubscription` must be a positive number"),
        ("bandwidth_gbps: 200", "bandwidth_gbps: 200Gb", "`bandwidth_gbps` must be a number, found text"),
        ("bandwidth_gbps: 200", "bandwidth_gbps: .inf", "inf"),
        ("bandwidth_gbps: 200", "bandwidth_gbps: 0200", "`0200` is read as the number 200"),
        ("bandwidth_gbps: 200", "bandwidth_gbps: 200.00000000000000001", "is read as the number 200"),
        ("ranks: [2, 3]", "ranks: [02, 3]", "`02` is read as the number 2"),
        ("  inter_node:", "  other_node:", "unknown key `other_node` in `fabric`"),
        ("id: node1", "id: 1", "`id` must be text, found a whole number"),
        ("{profile: H100}", "a100", "a gpu must be a mapping"),
        ("{profile: H100}", "{profile: ./own.yaml}", "cannot read the profile ./own.yaml: no file"),
        ("{profile: H100}", "{profile: gpus/own}", "cannot read the profile gpus/own: no file"),
        ("{profile: H100}", "{profile: own.yaml}", "cannot read the profile own.yaml: no file"),
        ("version: 1", "version: 1\nversion: 1", "the key `version` is given twice"),
        ("version: 1", "version: 1\nprofile: a100", "`profile` goes with `nodes: NUMBER` only"),
        ("version: 1", "version: [", "4:7: while parsing a flow"),
    ] {
        let text = LONG.replace(from, to);
        assert_ne!(text, LONG, "{from} is not in the file");
        let found = mistakes(&text);
        assert!(found.iter().any(|mistake| mistake.contains(expected)), "no {expected:?} in {found:?}");
    }
    for text in [
        "",
        "- a\n",
        "nodes: 0\ngpus_per_node: 1\nprofile: a100\n",
        "nodes: 4000\ngpus_per_node: 4000\nprofile: a100\n",
    ] {
        assert!(!mistakes(text).is_empty());
    }
}

#[test]
fn a_repeated_key_does_not_hide_the_other_mistakes() {
    let found = mistakes(&LONG.replace("version: 1", "version: 1\nversion: 1").replace("type: nvlink", "tipe: nvlink"));
    assert!(
        found[0].contains("is given twice") && found.iter().any(|mistake| mistake.contains("unknown key `tipe`")),
        "{found:?}"
    );
}

#[test]
fn every_mistake_says_what_to_write() {
    let text = LONG.replace("ranks: [2, 3]", "ranks: [1]").replace("type:", "kind:").replace("profile:", "model:");
    for mistake in parse("c.yaml", &text, &no_profiles).unwrap_err() {
        assert!(mistake.help.as_ref().is_some_and(|help| !help.is_empty()), "{mistake}");
        assert!(mistake.line > 1, "{mistake}");
    }
}

#[test]
fn own_profiles_travel_with_the_plan() {
    let built_in = protocol::profile::builtin("a100").unwrap();
    let own = || {
        let mut own = serde_json::to_value(built_in).unwrap();
        own["id"] = "my-gpu".into();
        own["sm_count"] = 7.into();
        own["driver"] = "13.0".into();
        own.to_string()
    };
    let text = "nodes: 1\ngpus_per_node: 2\nprofile: ./my-gpu.yaml\n";
    let plan =
        parse("c.yaml", text, &|path| if path == "./my-gpu.yaml" { Ok(own()) } else { Err("wrong path".into()) })
            .unwrap();
    assert_eq!(plan.nodes[0].gpus, ["my-gpu"; 2]);
    assert_eq!(plan.profile("my-gpu").unwrap().sm_count, 7);
    assert_eq!(plan.profile("my-gpu").unwrap().driver.as_deref(), Some("13.0"));
    let bad = [
        (own().replace("my-gpu", "a100"), "has the id `a100` of another profile"),
        (own().replace("sm_count", "sms"), "./my-gpu.yaml:1:"),
        (own().replace("\"8.0\"", "\"eight\""), "compute_capability"),
        (own().replace("\"13.0\"", "\"12.7\""), "`driver` must be a CUDA version that is known"),
    ];
    for (profile, expected) in bad {
        let mistakes = parse("c.yaml", text, &|_| Ok(profile.clone())).unwrap_err();
        assert!(mistakes[0].message.contains(expected), "{mistakes:?}");
        assert_eq!((mistakes[0].line, mistakes[0].column), (3, 10));
    }
}
