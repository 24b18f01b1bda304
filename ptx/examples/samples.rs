//! PTX of real compilers: `cargo run -p ptx --example samples -- DIRECTORY [STORE]` compiles every kernel of the `.ptx` files in a
//! directory and prints what it took. With a STORE, a directory where code is kept, the second run shows what that saves.

fn main() {
    let mut arguments = std::env::args_os().skip(1);
    let Some(directory) = arguments.next() else {
        eprintln!("usage: samples DIRECTORY [STORE]");
        std::process::exit(2);
    };
    if let Some(store) = arguments.next() {
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
    println!("{good} kernels, {bad} refused");
    if let Some(worst) = times.last() {
        println!("median {:.1} ms, worst {worst:.1} ms", times[times.len() / 2]);
    }
}
