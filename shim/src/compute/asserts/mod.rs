//! Assertions in PyTorch's CUDA kernels. The CPU's kernel refuses a bad index at once; a GPU's reports it on stderr, the call
//! returns, and the device fails at the next synchronization. One list has the operators, with the texts of their kernels.

mod range;

use abi::cuda::CudaError;
use protocol::finding::FindingKind;

use super::operator::Operator;
use super::value::{Arguments, Value};
use crate::call_site;
use crate::device::Device;
use crate::report::finding;
use crate::sanitizer::source_line;

/// An assertion in the kernel of an operator.
struct Assertion {
    /// The operator, without namespace and overload.
    operator: &'static str,
    /// What of its arguments the kernel asserts.
    check: fn(&Arguments) -> Option<Violation>,
}

/// An argument for which an assertion fails.
pub(super) struct Violation {
    /// The kernel's file in PyTorch.
    file: &'static str,
    kernel: &'static str,
    /// The text of the assertion.
    expression: String,
    /// What is wrong with the argument.
    what: String,
    /// The argument's name, and a value with which the assertion holds.
    argument: &'static str,
    valid: Value,
}

const ASSERTIONS: &[Assertion] = &[
    Assertion { operator: "index", check: range::index },
    Assertion { operator: "index_put", check: range::index_put },
    Assertion { operator: "index_put_", check: range::index_put },
    Assertion { operator: "_index_put_impl_", check: range::index_put },
    Assertion { operator: "index_select", check: range::index_select },
    Assertion { operator: "embedding", check: range::embedding },
    Assertion { operator: "index_add", check: range::index_add },
    Assertion { operator: "index_add_", check: range::index_add },
    Assertion { operator: "index_copy", check: range::index_copy },
    Assertion { operator: "index_copy_", check: range::index_copy },
    Assertion { operator: "index_fill", check: range::index_fill },
    Assertion { operator: "index_fill_", check: range::index_fill },
    Assertion { operator: "gather", check: range::along_dimension },
    Assertion { operator: "scatter", check: range::along_dimension },
    Assertion { operator: "scatter_", check: range::along_dimension },
    Assertion { operator: "scatter_add", check: range::along_dimension },
    Assertion { operator: "scatter_add_", check: range::along_dimension },
    Assertion { operator: "scatter_reduce", check: range::along_dimension },
    Assertion { operator: "scatter_reduce_", check: range::along_dimension },
    Assertion { operator: "take", check: range::element },
    Assertion { operator: "put", check: range::element },
    Assertion { operator: "put_", check: range::element },
    Assertion { operator: "nll_loss_forward", check: range::class },
    Assertion { operator: "nll_loss2d_forward", check: range::class_of_pixel },
    Assertion { operator: "nll_loss_backward", check: range::class },
    Assertion { operator: "nll_loss2d_backward", check: range::class_of_pixel },
    Assertion { operator: "multi_margin_loss", check: range::class_of_margin },
    Assertion { operator: "multi_margin_loss_backward", check: range::class_of_margin },
    Assertion { operator: "binary_cross_entropy", check: range::probability },
    Assertion { operator: "multinomial", check: range::weights },
    Assertion { operator: "_assert_async", check: range::condition },
];

/// The assertion in the kernel of the operator `aten::NAME.OVERLOAD`.
fn find(name: &str) -> Option<&'static Assertion> {
    let base = name.strip_prefix("aten::")?.split('.').next()?;
    ASSERTIONS.iter().find(|assertion| assertion.operator == base)
}

impl Violation {
    /// The first argument that violates an assertion of the operator's kernel, among arguments that are CPU tensors; `error` is
    /// what the CPU's kernel said.
    pub(super) fn find(arguments: &Arguments, error: &str) -> Option<Violation> {
        let mut found = (find(&arguments.operator.name)?.check)(arguments)?;
        // Then the text is the program's.
        if arguments.operator.name == "aten::_assert_async.msg" {
            error.lines().next().unwrap_or_default().clone_into(&mut found.expression);
        }
        Some(found)
    }

    /// The arguments with one that the kernel accepts: what a failed kernel leaves is never seen.
    pub(super) fn repaired(&self, operator: &Operator, mut arguments: Vec<Value>) -> Vec<Value> {
        let place = operator.schema().place(self.argument);
        if let Some(slot) = place.and_then(|place| arguments.get_mut(place)) {
            *slot = self.valid.clone();
        }
        arguments
    }

    /// The kernel fails: what a GPU writes to stderr, without the line and the threads, which are not known, and the finding.
    pub(super) fn report(&self, operator: &Operator, device: &Device) {
        // What is launched after a failure does not run.
        if device.fails_later() {
            return;
        }
        device.fail_later(CudaError::ASSERT);
        let Self { file, kernel, expression, what, .. } = self;
        device.output.assert(&format!(
            "/pytorch/aten/src/ATen/native/cuda/{file}:?: {kernel}: block: [?,?,?], thread: [?,?,?] \
             Assertion `{expression}` failed.\n"
        ));
        let name = operator.name.split('.').next().unwrap_or_default();
        let place = call_site::of_mistake().map_or_else(String::new, source_line::called);
        let ordinal = device.ordinal;
        let sentence = format!("{name} on device {ordinal}{place}: {what}; its kernel asserts `{expression}`");
        finding::record(FindingKind::DeviceAssert, &operator.name, None, sentence);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compute::mapping::names;

    #[test]
    fn an_operator_is_found_by_its_name_without_overload() {
        assert!(find("aten::index.Tensor").is_some_and(|found| found.operator == "index"));
        assert!(find("aten::scatter_add_").is_some_and(|found| found.operator == "scatter_add_"));
        assert!(find("aten::nll_loss_forward.output").is_some());
        assert!(find("aten::add.Tensor").is_none() && find("prims::gather").is_none());
        let mut operators: Vec<&str> = ASSERTIONS.iter().map(|assertion| assertion.operator).collect();
        operators.sort_unstable();
        assert_eq!(operators, names::ASSERTING);
    }
}
