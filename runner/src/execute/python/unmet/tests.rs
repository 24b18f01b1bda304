//! Requirements against an interpreter that is written down here.

use super::*;

/// An interpreter of Python 3.10 with PyTorch 2.9.1.
fn inventory() -> Inventory {
    let answer = r#"{
        "markers": {"python_version": "3.10", "python_full_version": "3.10.13", "sys_platform": "linux"},
        "packages": {
            "torch": {"version": "2.9.1+cpu", "requires": ["triton~=3.5.1; sys_platform == 'linux'"], "direct": null, "place": "/s"},
            "triton": {"version": "3.4.0", "requires": [], "direct": null, "place": "/s"},
            "numpy": {"version": "2.4.0rc1", "requires": [], "direct": null, "place": "/s"},
            "typing-extensions": {"version": "4.13.0", "requires": [], "direct": null, "place": "/s"},
            "odd": {"version": "old-style", "requires": [], "direct": null, "place": "/s"},
            "built": {"version": "", "requires": [], "direct": null, "place": "/s"},
            "rich": {"version": "1", "place": "/s", "direct": null, "requires": [
                "six; extra == 'all'", "rich[all]; extra == 'more'", "numpy>=2; extra == 'math'", "nvidia-nccl-cu13; extra == 'math'",
                "tomli; python_version < '3.9' and extra == 'math'"]},
            "mine": {"version": "1", "place": "/s", "requires": [],
                "direct": {"url": "file:///my%20code/mine", "dir_info": {"editable": true}}},
            "copied": {"version": "1", "place": "/s", "requires": [], "direct": {"url": "file:///copied", "dir_info": {}}},
            "developed": {"version": "1", "place": "/developed/src", "requires": [], "direct": null},
            "cloned": {"version": "1", "place": "/s", "requires": [], "direct": {"url": "https://git.example/cloned.git",
                "vcs_info": {"vcs": "git", "requested_revision": "v1", "commit_id": "0123abcd"}}},
            "fetched": {"version": "1", "place": "/s", "requires": [], "direct": {"url": "https://x/fetched-1.whl", "archive_info": {}}}
        }
    }"#;
    serde_json::from_str(answer).unwrap()
}

fn lacks(line: &str) -> String {
    unmet(&[line.to_owned()], &inventory()).join("; ")
}

#[test]
fn versions_are_compared_as_pip_compares_them() {
    for line in [
        "torch",
        "torch==2.9.1",
        "torch == 2.9.*",
        "torch>=2.9,<3",
        "Torch~=2.9.0",
        "torch (>=2)",
        "torch===2.9.1+cpu",
        "torch!=2.8",
        "numpy>=2.4.0rc1",
        "Typing_Extensions>=4",
        "odd===old-style",
        "numpy==2.0; python_version >= '3.11'",
        "missing; sys_platform == 'win32'",
        "-c missing<2",
        "-c numpy<3",
        "--extra-index-url https://x",
    ] {
        assert_eq!(lacks(line), "", "{line}");
    }
    for (line, expected) in [
        ("torch==2.15.0", "torch 2.9.1+cpu instead of torch==2.15.0"),
        ("torch==2.9.1+cu130", "torch 2.9.1+cpu instead of torch==2.9.1+cu130"),
        ("torch>=2.10", "torch 2.9.1+cpu instead of torch>=2.10"),
        ("numpy==2.0 --hash=sha256:aa --hash=sha256:bb", "numpy 2.4.0rc1 instead of numpy==2.0"),
        ("numpy>=2.4", "numpy 2.4.0rc1 instead of numpy>=2.4"),
        ("six", "no six"),
        ("six>=1; python_version < '3.11'", "no six"),
        ("-c numpy<2", "numpy 2.4.0rc1 instead of numpy<2"),
        ("built==1", "built of unknown version instead of built==1"),
        ("odd>=1", "odd old-style instead of odd>=1"),
        ("torch; what == 'x'", "torch: the marker `what == 'x'` cannot be read"),
        ("torch>>2", "torch 2.9.1+cpu instead of torch>>2"),
    ] {
        assert_eq!(lacks(line), expected, "{line}");
    }
    let both = unmet(&["six".to_owned(), "torch==2.15.0".to_owned(), "six>=1".to_owned()], &inventory());
    assert_eq!(both, ["no six", "torch 2.9.1+cpu instead of torch==2.15.0"]);
}

#[test]
fn triton_without_a_version_is_the_one_that_pytorch_asks_for() {
    assert_eq!(lacks("triton"), "triton 3.4.0 instead of ~=3.5.1");
    assert_eq!(lacks("triton==3.4.0"), "");
}

#[test]
fn extras_bring_what_they_ask_for() {
    assert_eq!(lacks("rich[math]"), "");
    assert_eq!(lacks("rich[all]"), "no six");
    assert_eq!(lacks("rich[more,math]>=1"), "no six");
    assert_eq!(lacks("rich[unknown]"), "");
}

#[test]
fn a_package_from_a_place_has_to_come_from_there() {
    for line in [
        "-e /my code/mine",
        "/copied",
        "-e /developed",
        "cloned @ git+https://git.example/cloned.git@v1",
        "cloned @ git+https://git.example/cloned@0123abcd",
        "cloned @ git+ssh://git@other/x ; sys_platform == 'win32'",
        "fetched @ https://x/fetched-1.whl#sha256=aa",
    ] {
        assert_eq!(lacks(line), "", "{line}");
    }
    for (line, expected) in [
        ("-e /copied", "nothing that was installed from /copied, editable"),
        ("-e /elsewhere[test]", "nothing that was installed from /elsewhere, editable"),
        ("/dist/a-1.whl", "nothing that was installed from /dist/a-1.whl"),
        (
            "cloned @ git+https://git.example/cloned@v2",
            "cloned 1 from elsewhere than git+https://git.example/cloned@v2",
        ),
        ("numpy @ https://x/numpy.whl", "numpy 2.4.0rc1 from elsewhere than https://x/numpy.whl"),
    ] {
        assert_eq!(lacks(line), expected, "{line}");
    }
}

#[test]
fn only_packages_have_names() {
    let lines = ["-e /a", "--pre", "-c numpy<2", "/b.whl", "Torch[x]==2 --hash=sha256:a", "a @ https://x"];
    assert_eq!(named(&lines.map(str::to_owned)).collect::<Vec<_>>(), ["torch", "a"]);
    assert!(has_hashes(&lines.map(str::to_owned)) && !has_hashes(&["a".to_owned()]));
}
