//! Turns the arguments of a call into CPU tensors, and its results and changes back into CUDA tensors.

use std::ffi::c_void;

use abi::library::Library;

use super::cxx::{Device, IValue};
use super::libtorch::torch;
use super::object::{self, Form, Storage, Tensor};
use super::operator::{Kind, Operator};
use super::{exception, view};
use crate::boundary::gap;

/// A tensor argument and the view that replaces it.
struct Viewed {
    original: Tensor,
    view: Tensor,
    /// The storage of the view, shared by the views of one storage; a sparse tensor has none.
    twin: Option<Storage>,
    /// Whether we own a reference to the original; it is then not in a list.
    is_ours: bool,
}

/// A list of tensors whose members are views for the duration of the call.
struct ViewedList {
    list: *mut c_void,
    /// (place, original)
    members: Vec<(usize, Tensor)>,
}

/// The arguments of a call as seen by the CPU. Dropping it restores the originals, even when an exception passes.
pub(super) struct Views {
    tensors: Vec<Viewed>,
    lists: Vec<ViewedList>,
}

impl Views {
    /// Replaces the CUDA tensors among `arguments` with views.
    pub(super) fn make(operator: &Operator, arguments: &mut [IValue]) -> Self {
        let mut views = Self { tensors: Vec::with_capacity(8), lists: Vec::new() };
        for (kind, slot) in operator.schema().arguments.iter().zip(arguments) {
            match kind {
                Kind::Tensor => views.argument(slot),
                Kind::Tensors if slot.tag == torch().layout.tags.list => views.list(slot.payload as *mut c_void),
                Kind::Device if slot.tag == torch().layout.tags.device => {
                    slot.payload = u64::from(u16::from_ne_bytes([0, 0xff]));
                }
                _ => {}
            }
        }
        views
    }

    fn argument(&mut self, slot: &mut IValue) {
        self.view(slot, true);
    }

    fn list(&mut self, list: *mut c_void) {
        // SAFETY: the stack's reference keeps it alive now, ours later; while it has two holders its values are not moved away.
        let items = unsafe {
            object::retain(list);
            object::list_items(list)
        };
        let mut members = Vec::with_capacity(items.len());
        for (place, slot) in items.iter_mut().enumerate() {
            if let Some(original) = self.view(slot, false) {
                members.push((place, original));
            }
        }
        self.lists.push(ViewedList { list, members });
    }

    /// Puts a view in a slot that holds a CUDA tensor, and returns that tensor. One reference to the view belongs to the
    /// slot, one to us.
    fn view(&mut self, slot: &mut IValue, is_ours: bool) -> Option<Tensor> {
        let original = Tensor::in_slot(slot)?;
        if original.device().kind != Device::CUDA {
            return None;
        }
        // One tensor in two places is one view in two places, as the kernel would see it.
        if let Some(known) = self.tensors.iter().position(|viewed| viewed.original == original) {
            let Viewed { view, twin, .. } = self.tensors[known];
            // SAFETY: alive through the first entry: references for the slot and for the entry here.
            unsafe {
                object::retain(view.0);
                object::retain(view.0);
                if let Some(twin) = twin {
                    object::retain(twin.0);
                }
            }
            self.tensors.push(Viewed { original, view, twin, is_ours });
            slot.payload = view.0 as u64;
            return Some(original);
        }
        let view = match original.form()? {
            Form::Plain | Form::Quantized => self.plain(original, is_ours),
            form => self.sparse(original, form, is_ours),
        };
        slot.payload = view.0 as u64;
        Some(original)
    }

    /// A view with two references: the caller's and ours.
    fn plain(&mut self, original: Tensor, is_ours: bool) -> Tensor {
        let storage = original.storage();
        let known = self.tensors.iter().find(|viewed| viewed.twin.is_some() && viewed.original.storage() == storage);
        let twin = known.and_then(|viewed| viewed.twin);
        if let Some(twin) = twin {
            // SAFETY: alive through another view's entry; this one owns it as well.
            unsafe { object::retain(twin.0) };
        }
        let twin = twin.unwrap_or_else(|| storage.twin());
        let view = view::on_twin(original, twin);
        // SAFETY: the view was just made.
        unsafe { object::retain(view.0) };
        self.tensors.push(Viewed { original, view, twin: Some(twin), is_ours });
        view
    }

    /// [`Views::plain`] for a sparse tensor: its copy has views of its indices and values.
    fn sparse(&mut self, original: Tensor, form: Form, is_ours: bool) -> Tensor {
        let view = view::on_cpu(original);
        for member in form.members() {
            let part = view.member(*member);
            let part_view = self.plain(part, false);
            view.set_member(*member, part_view);
            // SAFETY: the copy's reference to the part; the original still has its own.
            unsafe { object::release(part.0) };
        }
        // SAFETY: the view was just made.
        unsafe { object::retain(view.0) };
        self.tensors.push(Viewed { original, view, twin: None, is_ours });
        view
    }

    /// Applies a CPU kernel's changes of shape, size and storage to the originals.
    pub(super) fn adopt_changes(&mut self) {
        for index in 0..self.tensors.len() {
            let Viewed { original, view, twin, .. } = &self.tensors[index];
            let (original, view) = (*original, *view);
            if self.tensors[..index].iter().any(|other| other.original == original) {
                continue;
            }
            match *twin {
                // Several views may share one twin: its bytes change hands once.
                Some(twin) => {
                    let is_first = self.tensors[..index].iter().all(|other| other.twin != Some(twin));
                    adopt_storage(original, view, twin, is_first);
                }
                None => self.adopt_members(original, view),
            }
            if view.sizes_and_strides() != original.sizes_and_strides()
                || view.storage_offset() != original.storage_offset()
            {
                original.exchange_shape(view);
            }
            let lazy = torch().layout.keys.lazy;
            if (original.keys() ^ view.keys()) & lazy != 0 {
                original.set_keys((original.keys() & !lazy) | (view.keys() & lazy));
            }
        }
    }

    /// Applies new indices and values of a sparse view to its original.
    fn adopt_members(&mut self, original: Tensor, view: Tensor) {
        let Some(form) = original.form() else { return };
        for member in form.members() {
            let part = view.member(*member);
            let known = self.tensors.iter().find(|viewed| viewed.view == part).map(|viewed| viewed.original);
            let before = original.member(*member);
            if known == Some(before) {
                continue;
            }
            // SAFETY: the result takes over a reference to the part, and the original one to the result for its own.
            unsafe {
                object::retain(part.0);
                original.set_member(*member, self.result(part, original.device()));
                object::release(before.0);
            }
        }
        original.copy_sparse_fields(view, form);
    }

    /// A result as a CUDA tensor: the argument itself if the kernel returned its view. Takes a reference and returns
    /// one.
    fn result(&mut self, tensor: Tensor, device: Device) -> Tensor {
        let own = self.tensors.iter().position(|viewed| viewed.view == tensor && viewed.is_ours);
        let any = || self.tensors.iter().position(|viewed| viewed.view == tensor);
        let Some(viewed) = own.or_else(any).map(|index| &mut self.tensors[index]) else {
            let storage = tensor.storage();
            let Some(source) = self.tensors.iter().find(|viewed| viewed.twin == Some(storage)) else {
                return self.promote(tensor, device);
            };
            // A view of an argument: it gets the argument's own storage.
            let own = source.original.storage();
            // SAFETY: a tensor that the kernel made; its reference to the twin is exchanged for one to the storage.
            unsafe {
                object::retain(own.0);
                object::release(tensor.exchange_storage(own).0);
            }
            return view::promote(tensor, device, source.original.keys() & torch().layout.keys.above);
        };
        // SAFETY: the kernel's reference to the view is given back; the original is alive, in a list or by our reference,
        // which is handed on.
        unsafe {
            object::release(tensor.0);
            if !std::mem::take(&mut viewed.is_ours) {
                object::retain(viewed.original.0);
            }
        }
        viewed.original
    }

    /// [`view::promote`], with the indices and values of a sparse tensor.
    fn promote(&mut self, tensor: Tensor, device: Device) -> Tensor {
        if tensor.form().is_none() && tensor.device() == Device::CPU {
            gap::record(Library::Torch, "result", "of a kind that is neither strided, sparse nor quantised");
            exception::not_implemented("a result is of a kind that the simulated GPU cannot hold (a gap of ftest)");
        }
        if let Some(form @ (Form::Coordinates | Form::Compressed)) = tensor.form()
            && tensor.device() == Device::CPU
        {
            for member in form.members() {
                let part = self.result(tensor.member(*member), device);
                tensor.set_member(*member, part);
            }
        }
        view::promote(tensor, device, 0)
    }

    pub(super) fn results(&mut self, values: &mut [IValue], device: Device) {
        for value in values {
            if let Some(tensor) = Tensor::in_slot(value) {
                value.payload = self.result(tensor, device).0 as u64;
            } else if value.tag == torch().layout.tags.list {
                // SAFETY: a list that the kernel just made.
                for item in unsafe { object::list_items(value.payload as *mut c_void) } {
                    if let Some(tensor) = Tensor::in_slot(item) {
                        item.payload = self.result(tensor, device).0 as u64;
                    }
                }
            }
        }
    }
}

impl Drop for Views {
    fn drop(&mut self) {
        for ViewedList { list, members } in &self.lists {
            // SAFETY: we hold the list; its places hold views, whose references are given back with the originals' return.
            unsafe {
                let items = object::list_items(*list);
                for (place, original) in members {
                    let view = std::mem::replace(&mut items[*place].payload, original.0 as u64);
                    object::release(view as *mut c_void);
                }
                object::release(*list);
            }
        }
        for viewed in &self.tensors {
            // SAFETY: our references.
            unsafe {
                object::release(viewed.view.0);
                if let Some(twin) = viewed.twin {
                    object::release(twin.0);
                }
                if viewed.is_ours {
                    object::release(viewed.original.0);
                }
            }
        }
    }
}

/// Applies changes to a view's storage to the original.
fn adopt_storage(original: Tensor, view: Tensor, twin: Storage, is_first: bool) {
    let storage = original.storage();
    if is_first && twin.data() != storage.data() && !twin.is_borrowed() {
        storage.exchange_bytes(twin);
    }
    if view.storage() != twin {
        let fresh = view.storage();
        fresh.belong_to(original.device());
        // SAFETY: the original takes a reference to the new storage and gives up its own to the old.
        unsafe {
            object::retain(fresh.0);
            object::release(original.exchange_storage(fresh).0);
        }
    }
}
