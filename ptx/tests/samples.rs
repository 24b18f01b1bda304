//! PTX of real compilers, from a directory that `PTX_SAMPLES` names: every kernel is checked and compiled. Ignored where there is none.

mod device;

#[test]
#[ignore = "wants PTX_SAMPLES, a directory of PTX files"]
fn every_kernel_of_the_samples_compiles() {
    let directory = std::env::var("PTX_SAMPLES").expect("PTX_SAMPLES");
    // With `PTX_STORE` the second run shows what code on disk saves.
    if let Some(store) = std::env::var_os("PTX_STORE") {
        ptx::keep_code_in(store.as_ref());
    }
    let (mut good, mut bad, mut times) = (0, 0, Vec::new());
    let mut files: Vec<_> = std::fs::read_dir(directory).unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    for path in files.iter().filter(|p| p.extension().is_some_and(|e| e == "ptx")) {
        let text = std::fs::read_to_string(path).unwrap();
        let started = std::time::Instant::now();
        let module = ptx::Module::parse(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let parsed = started.elapsed();
        let image = ptx::Image::link(&[module]).unwrap();
        for entry in image.entries() {
            match image.kernel(&entry.name) {
                Ok(kernel) => {
                    good += 1;
                    times.push(kernel.compile_time().as_secs_f64() * 1e3);
                    println!(
                        "{} {}: {:?} (parse {parsed:?}), {} bytes",
                        path.display(),
                        entry.name,
                        kernel.compile_time(),
                        kernel.code_bytes()
                    );
                }
                Err(error) => {
                    bad += 1;
                    println!("{}: {error}", path.display());
                }
            }
        }
    }
    times.sort_by(f64::total_cmp);
    println!(
        "{good} kernels, {bad} refused, median {:.1} ms, worst {:.1} ms",
        times[times.len() / 2],
        times[times.len() - 1]
    );
}
