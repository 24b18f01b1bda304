//! Parses tokens into a module: directives, declarations and statements. Instructions are parsed by form only; `decode`
//! interprets them.

mod constant;
mod cursor;
mod module;
mod statement;
mod variable;

use crate::number::Scalar;
use crate::text::ast::*;
use crate::text::error::{ParseError, SourceText, Span};
use crate::text::lexer::{Kind, Token, lex};

type Result<T> = std::result::Result<T, ParseError>;

pub(crate) fn parse(source: &SourceText) -> Result<Ast> {
    let tokens = lex(source)?;
    let mut parser = Parser { source, tokens, at: 0, origin: None, ast: Ast { address_size: 32, ..Ast::default() } };
    parser.module()?;
    Ok(parser.ast)
}

struct Parser<'a> {
    source: &'a SourceText,
    tokens: Vec<Token>,
    at: usize,
    origin: Option<Origin>,
    ast: Ast,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Ast> {
        parse(&SourceText::new(text))
    }

    #[test]
    fn an_error_says_where_and_what() {
        let error =
            read(".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k()\n{\n  add.s32 %r1, %r2 %r3;\n}")
                .unwrap_err();
        assert_eq!(error.to_string(), "6:20: expected `,`, found `%r3`");
        let error = read(".version 8.0 /* open").unwrap_err();
        assert_eq!(error.to_string(), "1:14: comment without end: `*/` is missing");
        let error = read(".version 8.0\n.address_size 32").unwrap_err();
        assert_eq!(error.place.line, 2);
    }

    #[test]
    fn declarations_keep_alignment_sizes_and_values() {
        let text = ".version 9.0\n.target sm_90\n.address_size 64\n.global .align 8 .u64 t[2] = {f, generic(g)+4};\n.const .b8 m[] = {1, 2, -1};\n\
                    .visible .global .attribute(.managed) .v4 .f32 v;\n.shared .b8 s[4*(2+2)];";
        let ast = read(text).unwrap();
        assert_eq!((ast.version, ast.target.as_str()), ((9, 0), "sm_90"));
        let sizes: Vec<_> = ast.variables.iter().map(|v| (v.bytes(), v.align, v.managed)).collect();
        assert_eq!(sizes, [(16, 8, false), (3, 1, false), (16, 16, true), (16, 1, false)]);
        assert!(matches!(ast.variables[0].init[1], Init::Symbol { addend: 4, .. }));
        assert_eq!(ast.variables[1].init[2], Init::Int(u64::MAX));
    }
}
