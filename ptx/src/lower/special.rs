//! Special registers (`%tid`, `%laneid`, `%clock` ...): from the context, the warp or the lane.

use super::*;

impl<'a, B> Lowering<'a, B>
where
    Self: Body,
{
    pub(super) fn special(&mut self, special: Special) -> Value {
        let array = |base: usize, axis: u8| base + usize::from(axis.min(3)) * 4;
        let offset = match special {
            Special::Tid(axis) if axis < 3 => {
                let table = self.load_from(types::I64, constant(), self.warp, offset_of!(Warp, threads));
                let lane = self.lane().number;
                let scaled = self.b.ins().ishl_imm_u(lane, 2);
                let at = self.b.ins().iadd(table, scaled);
                let value = self.load_from(types::I32, constant(), at, usize::from(axis) * 128);
                return self.b.ins().uextend(types::I64, value);
            }
            Special::Tid(_) | Special::Zero | Special::CurrentGraphExec | Special::ReservedShared(_) => {
                return self.b.ins().iconst(types::I64, 0);
            }
            Special::Lane => return self.lane().number,
            Special::LaneMask(mask) => {
                let one = self.b.ins().iconst(types::I32, 1);
                let lane = self.lane().number;
                let lane = self.b.ins().ireduce(types::I32, lane);
                let bit = self.b.ins().ishl(one, lane);
                let below = self.b.ins().iadd_imm_s(bit, -1);
                let value = match mask {
                    Mask::Eq => bit,
                    Mask::Lt => below,
                    Mask::Le => self.b.ins().bor(bit, below),
                    Mask::Gt => {
                        let le = self.b.ins().bor(bit, below);
                        self.b.ins().bnot(le)
                    }
                    Mask::Ge => self.b.ins().bnot(below),
                };
                return self.b.ins().uextend(types::I64, value);
            }
            Special::Warp => {
                let value = self.load_from(types::I32, constant(), self.warp, offset_of!(Warp, index));
                return self.b.ins().uextend(types::I64, value);
            }
            Special::ParamBase => return self.load_context(types::I64, offset_of!(Context, params)),
            Special::Grid => return self.load_context(types::I64, offset_of!(Context, grid)),
            Special::Clock(which) => {
                let mode = self.b.ins().iconst(types::I64, i64::from(which));
                return self.call_pure(Helper::Clock, &[mode]);
            }
            Special::Ntid(axis) => array(offset_of!(Context, ntid), axis),
            Special::Ctaid(axis) => array(offset_of!(Context, ctaid), axis),
            Special::Nctaid(axis) => array(offset_of!(Context, nctaid), axis),
            Special::ClusterId(axis) => array(offset_of!(Context, clusterid), axis),
            Special::NclusterId(axis) => array(offset_of!(Context, nclusterid), axis),
            Special::ClusterCtaid(axis) => array(offset_of!(Context, cluster_ctaid), axis),
            Special::ClusterNctaid(axis) => array(offset_of!(Context, cluster_nctaid), axis),
            Special::ClusterCtarank => offset_of!(Context, cluster_rank),
            Special::ClusterNctarank => offset_of!(Context, cluster_size),
            Special::IsExplicitCluster => offset_of!(Context, explicit_cluster),
            Special::Workspace(half) => offset_of!(Context, workspace) + usize::from(half) * 4,
            Special::Nwarp => offset_of!(Context, nwarp),
            Special::Sm => offset_of!(Context, sm),
            Special::Nsm => offset_of!(Context, nsm),
            Special::DynamicShared => offset_of!(Context, dynamic_shared),
            Special::TotalShared | Special::AggrShared => offset_of!(Context, total_shared),
        };
        let value = self.load_context(types::I32, offset);
        self.b.ins().uextend(types::I64, value)
    }
}
