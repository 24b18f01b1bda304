//! Which function decodes an instruction, by its name and, where integers and floats share one, by its type.

use super::*;

use Scalar::*;

/// Decodes one instruction: its name, its modifiers and its operands.
pub(super) type Decode<'a> = fn(&mut Decoder<'a>, &str, &mut Modifiers<'a>, &'a [Operand]) -> Check<()>;

/// The function for an instruction, `None` if there is none of this name.
pub(super) fn decode_of<'a>(base: &str, m: &Modifiers<'a>) -> Option<Decode<'a>> {
    let last = m.list.iter().rev().find_map(|m| Scalar::named(m));
    let is_float = last.is_some_and(|scalar| scalar.float() || matches!(scalar, F16x2 | Bf16x2 | F32x2));
    let decode: Decode<'a> = match base {
        // Floating point.
        "add" | "sub" | "mul" | "mad" if is_float => |d, base, m, ops| d.arithmetic_float(base, m, ops),
        "fma" => |d, base, m, ops| d.arithmetic_float(base, m, ops),
        "div" if is_float => |d, _, m, ops| d.divide(m, ops),
        "rcp" | "sqrt" | "rsqrt" | "sin" | "cos" | "lg2" | "ex2" | "tanh" => {
            |d, base, m, ops| d.elementary(base, m, ops)
        }
        "abs" | "neg" if is_float => |d, base, m, ops| d.change_sign_of_float(base, m, ops),
        "min" | "max" if is_float => |d, base, m, ops| d.extreme(base, m, ops),
        "copysign" => |d, _, m, ops| d.copy_sign(m, ops),
        "testp" => |d, _, m, ops| d.test_property(m, ops),
        // Integers, logic, comparison and selection.
        "add" | "sub" if m.list.contains(&"cc") => |d, base, m, ops| d.add_with_carry_out(base, m, ops),
        "addc" | "subc" => |d, base, m, ops| d.add_with_carry(base, m, ops),
        "madc" => |d, _, m, ops| d.mad_carry(m, ops, true),
        "mad" if m.list.contains(&"cc") => |d, _, m, ops| d.mad_carry(m, ops, false),
        "add" | "sub" => |d, base, m, ops| d.add_or_subtract(base, m, ops),
        "mul" => |d, _, m, ops| d.multiply_integers(m, ops),
        "mad" => |d, _, m, ops| d.multiply_and_add(m, ops),
        "mul24" | "mad24" => |d, base, m, ops| d.multiply_24_bits(base, m, ops),
        "sad" => |d, _, m, ops| d.add_distance(m, ops),
        "div" => |d, _, m, ops| d.divide_integers(m, ops),
        "rem" => |d, _, m, ops| d.remainder(m, ops),
        "abs" | "neg" => |d, base, m, ops| d.change_sign(base, m, ops),
        "min" | "max" => |d, base, m, ops| d.extreme_of_integers(base, m, ops),
        "popc" | "clz" => |d, base, m, ops| d.count_bits(base, m, ops),
        "brev" => |d, _, m, ops| d.reverse_bits(m, ops),
        "bfind" => |d, _, m, ops| d.find_bit(m, ops),
        "fns" => |d, _, m, ops| d.find_nth_bit(m, ops),
        "bfe" => |d, _, m, ops| d.extract_bits(m, ops),
        "bfi" => |d, _, m, ops| d.insert_bits(m, ops),
        "bmsk" => |d, _, m, ops| d.mask_of_bits(m, ops),
        "szext" => |d, _, m, ops| d.extend(m, ops),
        "dp4a" | "dp2a" => |d, base, m, ops| d.dot_product(base, m, ops),
        "and" | "or" | "xor" => |d, base, m, ops| d.logic(base, m, ops),
        "not" => |d, _, m, ops| d.not(m, ops),
        "cnot" => |d, _, m, ops| d.logical_not(m, ops),
        "lop3" => |d, _, m, ops| d.lop3(m, ops),
        "shl" | "shr" => |d, base, m, ops| d.shift(base, m, ops),
        "shf" => |d, _, m, ops| d.funnel_shift(m, ops),
        "prmt" => |d, _, m, ops| d.permute_bytes(m, ops),
        "selp" => |d, _, m, ops| d.select(m, ops),
        "slct" => |d, _, m, ops| d.select_by_sign(m, ops),
        "setp" | "set" => |d, base, m, ops| d.compare(base, m, ops),
        // Data movement and conversion.
        "mov" => |d, _, m, ops| d.mov(m, ops),
        "cvt" if m.list.contains(&"pack") => |d, _, m, ops| d.pack_converted(m, ops),
        "cvt" => |d, _, m, ops| d.cvt(m, ops),
        // Memory.
        "ld" | "ldu" => |d, _, m, ops| d.load(m, ops),
        "st" => |d, _, m, ops| d.store_or_store_async(m, ops),
        "atom" | "red" => |d, base, m, ops| d.atomic_or_reduction(base, m, ops),
        "multimem" => |d, _, m, ops| d.multicast(m, ops),
        "prefetch" | "prefetchu" => |d, _, m, ops| d.prefetch(m, ops),
        "applypriority" | "discard" => |d, _, m, ops| d.cache_priority(m, ops),
        "createpolicy" => |d, _, m, ops| d.create_policy(m, ops),
        "isspacep" => |d, _, m, ops| d.is_space(m, ops),
        "cvta" => |d, _, m, ops| d.convert_address(m, ops),
        "mapa" => |d, _, m, ops| d.map_address(m, ops),
        "getctarank" => |d, _, m, ops| d.cta_rank(m, ops),
        "membar" | "fence" => |d, base, m, _| d.fence(base, m),
        "cp" => |d, _, m, ops| d.copy(m, ops),
        "mbarrier" => |d, _, m, ops| d.mbarrier(m, ops),
        "tensormap" => |d, _, m, ops| d.tensor_map(m, ops),
        // Control flow.
        "bra" => |d, _, m, ops| d.branch(m, ops),
        "brx" => |d, _, m, ops| d.branch_by_index(m, ops),
        "call" => |d, _, m, ops| d.call_function(m, ops),
        "ret" => |d, _, m, ops| d.ret(m, ops),
        "exit" => |d, _, _, ops| d.exit(ops),
        "trap" => |d, _, _, ops| d.trap(ops),
        "brkpt" => |d, _, _, ops| d.breakpoint(ops),
        "alloca" => |d, _, m, ops| d.alloca(m, ops),
        "stacksave" | "stackrestore" => |d, base, m, ops| d.save_or_restore_stack(base, m, ops),
        "nanosleep" => |d, _, m, ops| d.nanosleep(m, ops),
        "pmevent" => |d, _, m, ops| d.performance_event(m, ops),
        "setmaxnreg" => |d, _, m, ops| d.set_registers(m, ops),
        "griddepcontrol" => |d, _, m, ops| d.control_dependents(m, ops),
        // Textures and surfaces.
        "tex" => |d, _, m, ops| d.texture(m, ops),
        "tld4" => |d, _, m, ops| d.gather(m, ops),
        "txq" => |d, _, m, ops| d.query(false, m, ops),
        "suq" => |d, _, m, ops| d.query(true, m, ops),
        "suld" => |d, _, m, ops| d.load_surface(m, ops),
        "sust" => |d, _, m, ops| d.store_surface(m, ops),
        "sured" => |d, _, m, ops| d.reduce_surface(m, ops),
        // Warps and barriers.
        "shfl" => |d, _, m, ops| d.shuffle(m, ops),
        "vote" => |d, _, m, ops| d.vote(m, ops),
        "match" => |d, _, m, ops| d.match_values(m, ops),
        "redux" => |d, _, m, ops| d.reduce(m, ops),
        "activemask" => |d, _, m, ops| d.active_mask(m, ops),
        "elect" => |d, _, m, ops| d.elect(m, ops),
        "bar" | "barrier" => |d, base, m, ops| d.barrier(base, m, ops),
        // Matrices.
        "mma" => |d, _, m, ops| d.mma(m, ops),
        "wmma" => |d, _, m, ops| d.wmma(m, ops),
        "ldmatrix" | "stmatrix" => |d, base, m, ops| d.load_or_store_matrix(base, m, ops),
        "movmatrix" => |d, _, m, ops| d.move_matrix(m, ops),
        "wgmma" => |d, _, m, ops| d.warpgroup(m, ops),
        // Video.
        _ if base.starts_with('v') => |d, base, m, ops| d.video(base, m, ops),
        _ => return None,
    };
    Some(decode)
}
