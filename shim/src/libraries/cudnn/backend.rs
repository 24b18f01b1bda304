//! cuDNN's graphs of operations (`cudnnBackend...`), as cudnn-frontend and Transformer Engine build them, where nothing computes
//! (`FAKEGPU_COMPUTE=skip`): every graph has one engine, which needs neither workspace nor shared memory, and executing it only makes
//! what it writes unknown.
//! Where results are wanted, all of this is a gap.
//!
//! <https://docs.nvidia.com/deeplearning/cudnn/backend/latest/api/cudnn-graph-library.html>

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::Arc;

use abi::argument::Out;
use abi::library::Library;
use dataplane::lock::Mutex;

use super::super::objects::{Answer, Code, Objects, kind};
use super::{BAD, HANDLES, NOT_SUPPORTED, REFUSALS};
use crate::boundary::gap;
use crate::sanitizer::known;

/// CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED.
const NOT_FINALIZED: Code = Code(2004);
/// The most that one attribute may have, which no graph comes near.
const MOST_ELEMENTS: usize = 1 << 20;

/// `cudnnBackendDescriptorType_t`, as far as descriptors of these types have answers of their own.
mod descriptor {
    use std::ffi::c_int;

    pub(super) const ENGINE: c_int = 2;
    pub(super) const ENGINE_CONFIGURATION: c_int = 3;
    pub(super) const HEURISTICS: c_int = 4;
    pub(super) const PLAN: c_int = 5;
    pub(super) const GRAPH: c_int = 15;
    pub(super) const VARIANT_PACK: c_int = 16;
    pub(super) const TENSOR: c_int = 17;
}

/// `cudnnBackendAttributeName_t`
mod attribute {
    use std::ffi::c_int;

    pub(super) const HEURISTICS_GRAPH: c_int = 201;
    pub(super) const HEURISTICS_RESULTS: c_int = 202;
    pub(super) const CONFIGURATION_ENGINE: c_int = 300;
    pub(super) const CONFIGURATION_KNOBS: c_int = 302;
    pub(super) const CONFIGURATION_WORKSPACE: c_int = 303;
    pub(super) const CONFIGURATION_SHARED_MEMORY: c_int = 304;
    pub(super) const PLAN_WORKSPACE: c_int = 402;
    pub(super) const ENGINES: c_int = 802;
    pub(super) const TENSOR_TYPE: c_int = 901;
    pub(super) const TENSOR_ID: c_int = 906;
    pub(super) const IDS: c_int = 1000;
    pub(super) const POINTERS: c_int = 1001;
    pub(super) const WORKSPACE: c_int = 1003;
    pub(super) const ENGINE_GRAPH: c_int = 1300;
    pub(super) const ENGINE_INDEX: c_int = 1301;
    pub(super) const ENGINE_KNOBS: c_int = 1302;
    pub(super) const ENGINE_NUMERICAL_NOTES: c_int = 1303;
    pub(super) const ENGINE_BEHAVIOR_NOTES: c_int = 1305;
}

/// `cudnnBackendAttributeType_t`
mod element {
    use std::ffi::c_int;

    pub(super) const INT64: c_int = 3;
    pub(super) const DESCRIPTOR: c_int = 15;
    pub(super) const INT32: c_int = 23;
    pub(super) const LAST: c_int = 33;

    /// Bytes of an element.
    pub(super) fn bytes(kind: c_int) -> usize {
        match kind {
            // Boolean and character.
            2 | 24 => 1,
            // Handle, int64, double, pointer and descriptor.
            0 | 3 | 5 | 6 | DESCRIPTOR => 8,
            // A fraction of two int64.
            26 => 16,
            _ => 4,
        }
    }
}

/// `cudnnDataType_t` of sizes, offsets and indices, which operations only read: INT32, INT64 and UINT32.
const ONLY_READ: [c_int; 3] = [4, 10, 19];

pub(super) static DESCRIPTORS: Objects<Descriptor> = Objects::new(kind::CUDNN_DESCRIPTOR, REFUSALS);

/// A descriptor of any type.
#[derive(Debug)]
pub(super) struct Descriptor {
    kind: c_int,
    state: Mutex<State>,
}

#[derive(Clone, Debug, Default)]
struct State {
    is_final: bool,
    attributes: BTreeMap<c_int, Value>,
}

/// The elements of an attribute.
#[derive(Clone, Debug)]
enum Value {
    Plain { kind: c_int, bytes: Vec<u8> },
    Descriptors(Vec<Arc<Descriptor>>),
}

impl Value {
    fn of_number(number: i64) -> Self {
        Self::Plain { kind: element::INT64, bytes: number.to_ne_bytes().to_vec() }
    }

    fn words(&self) -> Vec<usize> {
        let Self::Plain { bytes, .. } = self else { return Vec::new() };
        let (words, _) = bytes.as_chunks::<8>();
        words.iter().map(|word| usize::from_ne_bytes(*word)).collect()
    }
}

impl Descriptor {
    fn finished(kind: c_int, attributes: impl IntoIterator<Item = (c_int, Value)>) -> Arc<Self> {
        let state = State { is_final: true, attributes: attributes.into_iter().collect() };
        Arc::new(Self { kind, state: Mutex::new(state) })
    }

    fn value(&self, name: c_int) -> Option<Value> {
        self.state.lock().attributes.get(&name).cloned()
    }

    /// What cuDNN would find out about it.
    fn found(&self, name: c_int) -> Option<Value> {
        match (self.kind, name) {
            (descriptor::HEURISTICS, attribute::HEURISTICS_RESULTS) => {
                let graph = self.value(attribute::HEURISTICS_GRAPH)?;
                let engine = Descriptor::finished(
                    descriptor::ENGINE,
                    [(attribute::ENGINE_GRAPH, graph), (attribute::ENGINE_INDEX, Value::of_number(0))],
                );
                let engine = (attribute::CONFIGURATION_ENGINE, Value::Descriptors(vec![engine]));
                Some(Value::Descriptors(vec![Descriptor::finished(descriptor::ENGINE_CONFIGURATION, [engine])]))
            }
            (descriptor::GRAPH, attribute::ENGINES) => Some(Value::of_number(1)),
            (descriptor::PLAN, attribute::PLAN_WORKSPACE)
            | (descriptor::ENGINE_CONFIGURATION, attribute::CONFIGURATION_WORKSPACE) => Some(Value::of_number(0)),
            (descriptor::ENGINE_CONFIGURATION, attribute::CONFIGURATION_KNOBS)
            | (descriptor::ENGINE, attribute::ENGINE_KNOBS) => Some(Value::Descriptors(Vec::new())),
            (descriptor::ENGINE_CONFIGURATION, attribute::CONFIGURATION_SHARED_MEMORY) => {
                Some(Value::Plain { kind: element::INT32, bytes: vec![0; 4] })
            }
            _ => None,
        }
    }

    /// Adds the datatypes of all tensors that it names, by their ids.
    fn add_tensors(&self, types: &mut BTreeMap<usize, c_int>) {
        let state = self.state.lock();
        if let (descriptor::TENSOR, Some(id), Some(Value::Plain { bytes, .. })) =
            (self.kind, state.attributes.get(&attribute::TENSOR_ID), state.attributes.get(&attribute::TENSOR_TYPE))
            && let (Some(id), Some(datatype)) = (id.words().first(), bytes.first_chunk())
        {
            types.insert(*id, c_int::from_ne_bytes(*datatype));
        }
        for value in state.attributes.values() {
            if let Value::Descriptors(parts) = value {
                parts.iter().for_each(|part| part.add_tensors(types));
            }
        }
    }
}

/// Elsewhere `call` is a gap.
fn only_where_nothing_computes(call: &'static str) -> Answer {
    if known::is_wanted() {
        return Ok(());
    }
    gap::record(Library::Cudnn, call, "");
    Err(NOT_SUPPORTED)
}

pub(super) fn create(kind: c_int, out: Out<usize>) -> Answer {
    only_where_nothing_computes("cudnnBackendCreateDescriptor")?;
    if kind < 0 {
        return Err(BAD);
    }
    DESCRIPTORS.create(out, Descriptor { kind, state: Mutex::default() })
}

pub(super) fn set(descriptor: usize, name: c_int, kind: c_int, count: i64, elements: Out<u8>) -> Answer {
    let descriptor = DESCRIPTORS.get(descriptor)?;
    let count = usize::try_from(count).ok().filter(|count| *count <= MOST_ELEMENTS).ok_or(BAD)?;
    if !(0..=element::LAST).contains(&kind) {
        return Err(BAD);
    }
    let value = if kind == element::DESCRIPTOR {
        let handles = Out(elements.0.cast::<usize>()).list(count).map_err(REFUSALS.null())?;
        Value::Descriptors(handles.into_iter().map(|handle| DESCRIPTORS.get(handle)).collect::<Answer<_>>()?)
    } else {
        let bytes = elements.list(count * element::bytes(kind)).map_err(REFUSALS.null())?;
        Value::Plain { kind, bytes }
    };
    let mut state = descriptor.state.lock();
    // Afterwards it can only be read.
    if state.is_final {
        return Err(BAD);
    }
    state.attributes.insert(name, value);
    Ok(())
}

/// Puts out as many elements as there is `room` for, and how many there are. Descriptors are put into those that the caller created.
pub(super) fn get(
    descriptor: usize,
    name: c_int,
    kind: c_int,
    room: i64,
    count: Out<i64>,
    elements: Out<u8>,
) -> Answer {
    let descriptor = DESCRIPTORS.get(descriptor)?;
    let room = usize::try_from(room).map_err(|_| BAD)?;
    if !descriptor.state.lock().is_final {
        return Err(NOT_FINALIZED);
    }
    let empty = || match name {
        attribute::ENGINE_NUMERICAL_NOTES | attribute::ENGINE_BEHAVIOR_NOTES => {
            Some(Value::Plain { kind, bytes: Vec::new() })
        }
        _ => None,
    };
    let Some(value) = descriptor.found(name).or_else(|| descriptor.value(name)).or_else(empty) else {
        gap::record(Library::Cudnn, "cudnnBackendGetAttribute", &format!("attribute {name}"));
        return Err(NOT_SUPPORTED);
    };
    let there = match value {
        Value::Descriptors(parts) if kind == element::DESCRIPTOR => {
            let into = Out(elements.0.cast::<usize>()).list(room.min(parts.len())).map_err(REFUSALS.null())?;
            for (part, handle) in parts.iter().zip(into) {
                let target = DESCRIPTORS.get(handle)?;
                if target.kind != part.kind {
                    return Err(BAD);
                }
                let state = part.state.lock().clone();
                *target.state.lock() = state;
            }
            parts.len()
        }
        Value::Plain { kind: own, bytes } if own == kind => {
            let size = element::bytes(kind);
            let there = bytes.len() / size;
            for (index, byte) in bytes.iter().take(room * size).enumerate() {
                let first = elements.required().map_err(REFUSALS.null())?.0;
                Out(first.wrapping_add(index)).set(*byte).map_err(REFUSALS.null())?;
            }
            there
        }
        Value::Plain { .. } | Value::Descriptors(_) => return Err(BAD),
    };
    count.set_if_wanted(there as i64);
    Ok(())
}

pub(super) fn finalize(descriptor: usize) -> Answer {
    DESCRIPTORS.get(descriptor)?.state.lock().is_final = true;
    Ok(())
}

/// Nothing is computed: what it may have written is unknown from now on.
pub(super) fn execute(handle: usize, plan: usize, pack: usize) -> Answer {
    only_where_nothing_computes("cudnnBackendExecute")?;
    HANDLES.get(handle)?;
    let (plan, pack) = (DESCRIPTORS.get(plan)?, DESCRIPTORS.get(pack)?);
    if (plan.kind, pack.kind) != (descriptor::PLAN, descriptor::VARIANT_PACK) {
        return Err(BAD);
    }
    if ![&plan, &pack].iter().all(|descriptor| descriptor.state.lock().is_final) {
        return Err(NOT_FINALIZED);
    }
    let words = |name| pack.value(name).map(|value| value.words()).unwrap_or_default();
    let mut types = BTreeMap::new();
    plan.add_tensors(&mut types);
    let is_written = |id: &usize| types.get(id).is_none_or(|datatype| !ONLY_READ.contains(datatype));
    let tensors = words(attribute::IDS).into_iter().zip(words(attribute::POINTERS));
    let written = tensors.filter(|(id, _)| is_written(id)).map(|(_, pointer)| pointer);
    gap::tolerate(Library::Cudnn, "cudnnBackendExecute", "a graph of operations")
        .map_err(|refused| Code(u32::from(refused)))?;
    if !known::is_operator_under_way() {
        known::launched("cudnnBackendExecute", written.chain(words(attribute::WORKSPACE)));
    }
    Ok(())
}
