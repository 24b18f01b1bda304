//! A function as it was parsed, as PTX again: one statement a line, with numbers in one notation, and without comments and what the
//! parser passes over. What is printed is parsed to the same function.

use std::fmt::{self, Display, Formatter, Write};

use super::ast::*;
use super::error::{SourceText, Span};

/// A part of a module with the text that its names are in.
struct In<'a, T>(&'a T, &'a SourceText);

/// A function as PTX.
pub(crate) fn function(function: &Function, source: &SourceText) -> String {
    In(function, source).to_string()
}

/// `a, b, c`
fn list<'a, T: 'a>(items: impl IntoIterator<Item = &'a T>, source: &'a SourceText) -> String
where
    In<'a, T>: Display,
{
    items.into_iter().map(|item| In(item, source).to_string()).collect::<Vec<_>>().join(", ")
}

/// A number that is added to a name.
fn added(offset: i64) -> String {
    match offset {
        0.. => format!("+{offset}"),
        _ => format!("-{}", offset.unsigned_abs()),
    }
}

impl Display for In<'_, Span> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.1.get(*self.0))
    }
}

impl Display for In<'_, Operand> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let In(operand, source) = *self;
        let name = |span: &Span| source.get(*span);
        match operand {
            Operand::Name(span) => f.write_str(name(span)),
            Operand::Element(span, index) => {
                write!(f, "{}.{}", name(span), ["x", "y", "z", "w"][usize::from(*index & 3)])
            }
            Operand::Parts(span, parts) => write!(f, "{}{}", name(span), name(parts)),
            Operand::Int(value) => write!(f, "{value}"),
            Operand::Double(bits) => write!(f, "0d{bits:016X}"),
            Operand::Single(bits) => write!(f, "0f{bits:08X}"),
            Operand::Not(span) => write!(f, "!{}", name(span)),
            Operand::Minus(span, part) => write!(f, "-{}{}", name(span), part.as_ref().map_or("", name)),
            Operand::Vector(all) => write!(f, "{{{}}}", list(all, source)),
            Operand::Address { base, offset, coordinates } => {
                write!(f, "[{}", In(&**base, source))?;
                if *offset != 0 {
                    f.write_str(&added(*offset))?;
                }
                if !coordinates.is_empty() {
                    write!(f, ", {}", list(coordinates, source))?;
                }
                f.write_char(']')
            }
            Operand::Pair(a, b) => write!(f, "{}|{}", In(&**a, source), In(&**b, source)),
            Operand::Offset(span, offset) => write!(f, "{}{}", name(span), added(*offset)),
            Operand::Group(all) => write!(f, "({})", list(all, source)),
        }
    }
}

impl Display for In<'_, Init> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            Init::Int(value) => write!(f, "{value}"),
            Init::Double(bits) => write!(f, "0d{bits:016X}"),
            Init::Single(bits) => write!(f, "0f{bits:08X}"),
            Init::Symbol { name, addend, mask } => {
                let symbol = format!("{}{}", self.1.get(*name), added(*addend));
                match mask {
                    Some(mask) => write!(f, "{mask:#x}({symbol})"),
                    None => f.write_str(&symbol),
                }
            }
        }
    }
}

impl Display for In<'_, Variable> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let In(variable, source) = *self;
        linking(f, variable.linking)?;
        write!(f, ".{}", format!("{:?}", variable.space).to_lowercase())?;
        if variable.managed {
            f.write_str(" .attribute(.managed)")?;
        }
        if variable.space != Space::Reg {
            write!(f, " .align {}", variable.align)?;
        }
        if variable.vector > 1 {
            write!(f, " .v{}", variable.vector)?;
        }
        write!(f, " .{} {}", variable.scalar.name(), source.get(variable.name))?;
        if let Some(count) = variable.count {
            write!(f, "<{count}>")?;
        }
        for dim in &variable.dims {
            write!(f, "[{}]", dim.map_or(String::new(), |dim| dim.to_string()))?;
        }
        match &variable.init[..] {
            [] => Ok(()),
            [value] if variable.dims.is_empty() => write!(f, " = {}", In(value, source)),
            values => write!(f, " = {{{}}}", list(values, source)),
        }
    }
}

fn linking(f: &mut Formatter<'_>, linking: Linking) -> fmt::Result {
    let Linking { external, visible, weak, common } = linking;
    for (is_so, word) in [(external, "extern"), (visible, "visible"), (weak, "weak"), (common, "common")] {
        if is_so {
            write!(f, ".{word} ")?;
        }
    }
    Ok(())
}

impl Display for In<'_, Statement> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let In(statement, source) = *self;
        match statement {
            Statement::Instruction(instruction) => {
                if let Some((predicate, negated)) = &instruction.guard {
                    write!(f, "@{}{} ", if *negated { "!" } else { "" }, source.get(*predicate))?;
                }
                f.write_str(source.get(instruction.opcode))?;
                if !instruction.operands.is_empty() {
                    write!(f, " {}", list(&instruction.operands, source))?;
                }
                f.write_char(';')
            }
            Statement::Label(name) => write!(f, "{}:", source.get(*name)),
            Statement::Open => f.write_char('{'),
            Statement::Close => f.write_char('}'),
            Statement::Variable(variable) => write!(f, "{};", In(variable, source)),
            Statement::Prototype(name, Prototype { returns, params }) => {
                let [returns, params] = [returns, params].map(|all| list(all, source));
                write!(f, "{}: .callprototype ({returns}) _ ({params});", source.get(*name))
            }
            Statement::Targets(name, targets) => {
                write!(f, "{}: .branchtargets {};", source.get(*name), list(targets, source))
            }
        }
    }
}

impl Display for In<'_, Function> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let In(function, source) = *self;
        let Prototype { returns, params } = &function.prototype;
        linking(f, function.linking)?;
        f.write_str(if function.entry { ".entry" } else { ".func" })?;
        if !returns.is_empty() {
            write!(f, " ({})", list(returns, source))?;
        }
        writeln!(f, " {}({})", source.get(function.name), list(params, source))?;
        let performance = &function.performance;
        let sizes = [
            ("maxntid", performance.maxntid),
            ("reqntid", performance.reqntid),
            ("reqnctapercluster", performance.reqnctapercluster),
        ];
        for (word, sizes) in sizes {
            if let Some([x, y, z]) = sizes {
                writeln!(f, "    .{word} {x}, {y}, {z}")?;
            }
        }
        let numbers = [
            ("minnctapersm", performance.minnctapersm),
            ("maxnreg", performance.maxnreg),
            ("maxclusterrank", performance.maxclusterrank),
        ];
        for (word, number) in numbers {
            if let Some(number) = number {
                writeln!(f, "    .{word} {number}")?;
            }
        }
        if performance.explicitcluster {
            writeln!(f, "    .explicitcluster")?;
        }
        let Some(body) = &function.body else { return f.write_str(";\n") };
        writeln!(f, "{{")?;
        for statement in body {
            let margin = if matches!(statement, Statement::Label(_)) { "" } else { "    " };
            writeln!(f, "{margin}{}", In(statement, source))?;
        }
        writeln!(f, "}}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::image::Module;

    const HEADER: &str = ".version 9.0\n.target sm_90\n.address_size 64\n";

    /// All functions of a module, printed.
    fn printed(text: &str) -> Vec<String> {
        let module = Module::parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        module.ast().functions.iter().map(|each| function(each, module.source())).collect()
    }

    #[test]
    fn what_is_printed_is_parsed_to_the_same_function() {
        let files = ["classes", "programs", "triton_add", "triton_matmul", "triton_softmax"];
        let mut count = 0;
        for file in files {
            let path = format!("{}/tests/ptx/{file}.ptx", env!("CARGO_MANIFEST_DIR"));
            for first in printed(&std::fs::read_to_string(path).unwrap()) {
                assert_eq!(printed(&format!("{HEADER}{first}")), [first.as_str()]);
                count += 1;
            }
        }
        assert!(count >= 36, "{count} functions");
    }

    #[test]
    fn every_form_of_an_operand_is_printed_as_it_is_written() {
        let body = "@!%p add.s32 %r|%q, !%p, -%r, -%r.h1, %r.b3210, %tid.z, 3, 0f3F800000, 0d3FF0000000000000, {%r, _}, [%a+4], \
                    [%a-8], [m, {%r, %r}], name+12, (%r, 4);";
        let text = format!("{HEADER}.func f(.param .align 4 .b32 n)\n{{\n    {body}\n}}\n");
        assert_eq!(printed(&text), [text.strip_prefix(HEADER).unwrap()]);
    }
}
