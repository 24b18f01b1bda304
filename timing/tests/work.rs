//! Times of kernels against published figures, which were measured elsewhere.

use serde_json::Value;
use timing::work::{self, Gpu, Number, Path, Product};

fn operators() -> Vec<Value> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../benches/published/operators.json");
    let text = std::fs::read_to_string(path).unwrap();
    let Value::Object(mut file) = serde_json::from_str(&text).unwrap() else { panic!("an object") };
    let Some(Value::Array(operators)) = file.remove("operators") else { panic!("operators") };
    operators
}

fn points(id: &str) -> Vec<Value> {
    let operators = operators();
    let entry = operators.iter().find(|entry| entry["id"] == id).unwrap_or_else(|| panic!("{id}"));
    entry["points"].as_array().unwrap().clone()
}

fn gpu(id: &str) -> Gpu {
    Gpu::from_profile(protocol::profile::builtin(id).unwrap())
}

/// Errors in ascending order.
fn errors(pairs: impl Iterator<Item = (f64, f64)>) -> Vec<f64> {
    let mut errors: Vec<f64> = pairs.map(|(modeled, published)| (modeled - published).abs() / published).collect();
    errors.sort_by(f64::total_cmp);
    errors
}

#[test]
fn peaks_are_those_of_the_data_sheets() {
    for (id, number, tflops) in [
        ("v100", Number::Half, 125.0),
        ("a100", Number::Half, 312.0),
        ("a100", Number::Tf32, 156.0),
        ("a100", Number::Double, 19.5),
        ("a10", Number::Half, 125.0),
        ("l4", Number::Half, 121.0),
        ("h100", Number::Half, 989.0),
        ("h100", Number::Float8, 1979.0),
        ("h100", Number::Single, 67.0),
        ("h200", Number::Half, 989.0),
        ("rtx4090", Number::Half, 165.2),
        ("rtx3090", Number::Half, 71.0),
    ] {
        let peak = gpu(id).peak_tflops(number);
        assert!((peak - tflops).abs() < 0.1 * tflops, "{id} {number:?}: {peak} against {tflops}");
    }
}

#[test]
fn products_take_what_was_measured_on_an_h100() {
    let h100 = gpu("h100");
    for (number, key, median, last_tenth) in
        [(Number::Half, "tflops_bf16", 0.05, 0.13), (Number::Tf32, "tflops_f32", 0.13, 0.35)]
    {
        let points = points("xla-gemm-h100-dev");
        let errors = errors(points.iter().map(|point| {
            let of = |name: &str| point[name].as_u64().unwrap();
            let product = Product { batch: of("b"), m: of("m"), n: of("n"), k: of("k"), number };
            (work::product_us(&h100, &product), product.flops() / point[key].as_f64().unwrap() / 1e6)
        }));
        assert!(errors.len() > 150 && errors[errors.len() / 2] < median, "{number:?}: {}", errors[errors.len() / 2]);
        assert!(errors[errors.len() * 9 / 10] < last_tenth, "{number:?}: {}", errors[errors.len() * 9 / 10]);
    }
}

#[test]
fn the_best_products_hold_the_share_of_the_peak_that_power_allows() {
    for point in points("mamf-bf16") {
        let id = match point["gpu"].as_str().unwrap() {
            "A100 SXM" => "a100",
            "H100 SXM" => "h100",
            "B200 SXM" => "b200",
            _ => continue,
        };
        let size: Vec<u64> = point["mnk"].as_array().unwrap().iter().map(|size| size.as_u64().unwrap()).collect();
        let product = Product { batch: 1, m: size[0], n: size[1], k: size[2], number: Number::Half };
        let reached = product.flops() / work::product_us(&gpu(id), &product) / 1e6;
        let published = point["tflops"].as_f64().unwrap();
        assert!((reached - published).abs() < 0.12 * published, "{id}: {reached} against {published}");
    }
}

#[test]
fn attention_is_as_fast_as_the_charts_of_its_authors() {
    let h100 = gpu("h100");
    for (id, head) in [("fa-h100-hd64", 64), ("fa-h100-hd256", 256)] {
        let errors = errors(points(id).iter().map(|point| {
            let share = work::attention_share(&h100, point["seq"].as_u64().unwrap(), head, false);
            (share * h100.peak_tflops(Number::Half), point["fa2"].as_f64().unwrap())
        }));
        assert!(errors[errors.len() / 2] < 0.07 && errors[errors.len() - 1] < 0.15, "{id}: {errors:?}");
    }
}

#[test]
fn copies_take_what_was_measured() {
    let h200 = gpu("h200");
    let rate = |path, bytes: u64| bytes as f64 / work::copy_us(&h200, path, bytes) / 1e3;
    for (path, published) in [(Path::Pinned, 55.2), (Path::Peer(450.0), 396.4)] {
        let reached = rate(path, 1 << 30);
        assert!((reached - published).abs() < 0.05 * published, "{path:?}: {reached}");
    }
    let a10 = gpu("a10");
    for point in points("one-rank-allreduce-a10g") {
        let (bytes, published) = (point["bytes"].as_u64().unwrap(), point["us"].as_f64().unwrap());
        if bytes < 1 << 20 {
            // The host is the limit there.
            continue;
        }
        let modeled = work::memory_us(&a10, 2 * bytes) + work::GAP_US;
        assert!((modeled - published).abs() < 0.08 * published, "{bytes}: {modeled} against {published}");
    }
}
