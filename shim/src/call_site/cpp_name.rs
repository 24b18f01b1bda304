//! Names of C++ functions as a person writes them.

use cpp_demangle::{DemangleOptions, Symbol};

/// `symbol` taken apart, if it is that of a C++ function. The demangler also knows types, and takes C's `f` for `float`.
fn parsed(symbol: &[u8]) -> Option<Symbol<&[u8]>> {
    symbol.starts_with(b"_Z").then(|| Symbol::new(symbol).ok())?
}

/// The demangled name, or `symbol` if it is not that of a C++ function.
pub(super) fn demangled(symbol: &[u8]) -> String {
    let name = parsed(symbol).and_then(|name| name.demangle().ok());
    name.unwrap_or_else(|| String::from_utf8_lossy(symbol).into_owned())
}

/// The name of a kernel in a sentence: qualified, without result, parameters and template arguments, which fill pages if the kernel is
/// that of a library like CUB.
pub(crate) fn of_kernel(symbol: &str) -> String {
    let options = DemangleOptions::new().no_params().no_return_type();
    let name = parsed(symbol.as_bytes()).and_then(|name| name.demangle_with_options(&options).ok());
    name.and_then(|name| without_arguments(&name)).unwrap_or_else(|| symbol.to_owned())
}

/// What a function of C++ is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Signature {
    /// Its namespaces.
    pub(crate) scope: String,
    pub(crate) name: String,
    /// Template arguments.
    pub(crate) arguments: Vec<String>,
    /// Types of its parameters, as they are listed.
    pub(crate) parameters: String,
}

/// The function behind a symbol; `None` if it is not C++.
pub(crate) fn signature(symbol: &str) -> Option<Signature> {
    let text = parsed(symbol.as_bytes())?.demangle_with_options(&DemangleOptions::new().no_return_type()).ok()?;
    let (whole, parameters) = text.strip_suffix(')')?.rsplit_once('(')?;
    let (path, arguments) = match whole.split_once('<') {
        Some((path, arguments)) => (path, arguments.strip_suffix('>')?.split(", ").map(str::to_owned).collect()),
        None => (whole, Vec::new()),
    };
    let (scope, name) = path.rsplit_once("::").unwrap_or(("", path));
    let (scope, name, parameters) = (scope.to_owned(), name.to_owned(), parameters.to_owned());
    Some(Signature { scope, name, arguments, parameters })
}

/// The types of a function's parameters, one by one; `None` if it is not C++.
pub(crate) fn parameters(symbol: &str) -> Option<Vec<String>> {
    let text = parsed(symbol.as_bytes())?.demangle_with_options(&DemangleOptions::new().no_return_type()).ok()?;
    let list = text.strip_suffix(')')?;
    let (mut depth, mut types) = (0_usize, vec![String::new()]);
    for character in list.chars().rev() {
        match character {
            '>' | ')' | ']' => depth += 1,
            '(' if depth == 0 => {
                let in_order = |name: String| name.chars().rev().collect::<String>().trim().to_owned();
                let types = types.into_iter().rev().map(in_order);
                return Some(types.filter(|name| !name.is_empty() && name != "void").collect());
            }
            '<' | '(' | '[' => depth = depth.checked_sub(1)?,
            ',' if depth == 0 => {
                types.push(String::new());
                continue;
            }
            _ => {}
        }
        types.last_mut()?.push(character);
    }
    None
}

/// `name` without template arguments; `None` if its angle brackets are not in pairs.
fn without_arguments(name: &str) -> Option<String> {
    let mut depth = 0_usize;
    let mut text = String::new();
    for character in name.chars() {
        match character {
            '<' => depth += 1,
            '>' => depth = depth.checked_sub(1)?,
            other if depth == 0 => text.push(other),
            _ => {}
        }
    }
    (depth == 0).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::of_kernel;

    // The symbols are nvcc's.
    #[test]
    fn kernels_have_the_name_of_their_source() {
        for (symbol, name) in [
            ("f", "f"),
            ("triton_poi_fused_add_0", "triton_poi_fused_add_0"),
            ("_Z3addPKfPfi", "add"),
            ("_Z5scaleIfEvPT_S0_", "scale"),
            ("_ZN1a1b6kernelINS_1cIiEELi3EEEvT_", "a::b::kernel"),
            ("_ZN12_GLOBAL__N_16hiddenEPi", "(anonymous namespace)::hidden"),
            ("_Zwrong", "_Zwrong"),
        ] {
            assert_eq!(of_kernel(symbol), name);
        }
    }
}
