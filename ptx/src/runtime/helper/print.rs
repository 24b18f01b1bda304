//! `vprintf` and `__assertfail`: messages of device code to people.

use std::ffi::CString;

use super::thread::resolve_any;
use crate::host::Assertion;
use crate::host::memory_ops::{Access, AddressSpace};
use crate::runtime::state::{Context, TRAP_ASSERT, Warp};

/// A zero-terminated text at a generic address; at most 64 KiB.
fn text(context: &mut Context, address: u64) -> Option<Vec<u8>> {
    let mut all = Vec::new();
    while all.len() < 1 << 16 {
        let place =
            resolve_any(context, address.wrapping_add(all.len() as u64), 1, 1, AddressSpace::Generic, Access::Read)?;
        // SAFETY: resolved for one byte.
        match unsafe { *place } {
            0 => break,
            byte => all.push(byte),
        }
    }
    Some(all)
}

fn read<const N: usize>(context: &mut Context, address: u64) -> Option<[u8; N]> {
    let place = resolve_any(context, address, N as u64, 1, AddressSpace::Generic, Access::Read)?;
    // SAFETY: resolved for N bytes.
    Some(unsafe { place.cast::<[u8; N]>().read_unaligned() })
}

pub(super) extern "C" fn vprintf(context: &mut Context, warp: &mut Warp, _mode: u64) {
    context.warp = warp;
    let (format, arguments) = (context.args[0] as u64, context.args[1] as u64);
    let Some(format) = text(context, format) else { return };
    let Some((out, count)) = print(context, &format, arguments) else { return };
    // SAFETY: the launch holds the host's side as long as it runs.
    unsafe { &*context.host }.print(&out);
    context.result = u128::from(count as u32);
}

/// The text that a format makes of its arguments, and how many of them it took.
fn print(context: &mut Context, format: &[u8], mut at: u64) -> Option<(Vec<u8>, usize)> {
    let mut out = Vec::new();
    let mut count = 0;
    let mut rest = format;
    while let Some(percent) = rest.iter().position(|b| *b == b'%') {
        out.extend_from_slice(&rest[..percent]);
        rest = &rest[percent..];
        let end = rest[1..].iter().position(|b| b"diuoxXcsfFeEgGaAp%n".contains(b)).map(|e| e + 2);
        let Some(end) = end else { break };
        let (spec, tail) = rest.split_at(end);
        rest = tail;
        let kind = spec[end - 1];
        if kind == b'%' {
            out.push(b'%');
            continue;
        }
        let mut next = |context: &mut Context, bytes: u64| -> Option<u64> {
            at = at.checked_next_multiple_of(bytes).unwrap_or(u64::MAX);
            let value = match bytes {
                4 => u64::from(u32::from_le_bytes(read(context, at)?)),
                _ => u64::from_le_bytes(read(context, at)?),
            };
            at = at.saturating_add(bytes);
            Some(value)
        };
        // Stars become numbers, and length modifiers become the one of the argument that is passed on.
        let mut plain = Vec::new();
        let mut long = 0;
        for byte in &spec[..end - 1] {
            match byte {
                b'*' => {
                    let value = next(context, 4)? as i32;
                    plain.extend_from_slice(value.to_string().as_bytes());
                }
                b'l' | b'j' | b'z' | b't' => long += 1,
                b'h' => long -= 1,
                // Everything that would make C look for arguments other than the one it gets is dropped.
                b'0'..=b'9' | b'-' | b'+' | b' ' | b'#' | b'.' | b'%' => plain.push(*byte),
                _ => {}
            }
        }
        count += 1;
        let mut buffer = [0u8; 512];
        let mut put = |suffix: &str, call: &dyn Fn(*mut libc::c_char, usize, *const libc::c_char) -> i32| {
            let mut spec = plain.clone();
            spec.extend_from_slice(suffix.as_bytes());
            spec.push(kind);
            let Ok(spec) = CString::new(spec) else { return };
            let length = call(buffer.as_mut_ptr().cast(), buffer.len(), spec.as_ptr());
            out.extend_from_slice(&buffer[..(length.max(0) as usize).min(buffer.len() - 1)]);
        };
        match kind {
            b'd' | b'i' | b'u' | b'o' | b'x' | b'X' => {
                let value = next(context, if long > 0 { 8 } else { 4 })?;
                let signed = matches!(kind, b'd' | b'i');
                let value = match (long, signed) {
                    (1.., _) => value as i64,
                    (-1, true) => i64::from(value as i16),
                    (-1, false) => i64::from(value as u16),
                    (..-1, true) => i64::from(value as i8),
                    (..-1, false) => i64::from(value as u8),
                    (_, true) => i64::from(value as i32),
                    _ => value as u32 as i64,
                };
                // SAFETY: the format takes one `long long`, and the buffer's size is given.
                put("ll", &|to, size, spec| unsafe { libc::snprintf(to, size, spec, value) });
            }
            b'c' => {
                let value = next(context, 4)? as i32;
                // SAFETY: the format takes one `int`.
                put("", &|to, size, spec| unsafe { libc::snprintf(to, size, spec, value) });
            }
            b'p' => {
                let value = next(context, 8)?;
                // SAFETY: the format takes one pointer, which is only printed.
                put("", &|to, size, spec| unsafe { libc::snprintf(to, size, spec, value as *const u8) });
            }
            b's' => {
                let address = next(context, 8)?;
                let value = text(context, address)?;
                if plain.len() == 1 {
                    out.extend_from_slice(&value);
                } else if let Ok(value) = CString::new(value) {
                    // SAFETY: the format takes one text that ends in zero.
                    put("", &|to, size, spec| unsafe { libc::snprintf(to, size, spec, value.as_ptr()) });
                }
            }
            b'n' => count -= 1,
            _ => {
                let value = f64::from_bits(next(context, 8)?);
                // SAFETY: the format takes one `double`.
                put("", &|to, size, spec| unsafe { libc::snprintf(to, size, spec, value) });
            }
        }
    }
    out.extend_from_slice(rest);
    Some((out, count))
}

pub(super) extern "C" fn assert_fail(context: &mut Context, warp: &mut Warp, _mode: u64) {
    context.warp = warp;
    let args = context.args;
    let mut get = |index: usize| {
        let bytes = text(context, args[index] as u64).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let (message, file, function) = (get(0), get(1), get(3));
    // SAFETY: `warp` is the warp that runs; its table has 32 lanes for each axis.
    let thread = [0, 1, 2].map(|axis| unsafe { *warp.threads.add(axis * 32 + context.lane as usize) });
    let block = [context.ctaid[0], context.ctaid[1], context.ctaid[2]];
    let assertion = Assertion { message, file, line: args[2] as u32, function, block, thread };
    context.trap = TRAP_ASSERT;
    // SAFETY: the launch holds the host's side as long as it runs.
    unsafe { &*context.host }.assertion(&assertion);
}
