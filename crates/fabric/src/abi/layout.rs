//! The layouts, as a C compiler printed them for the public headers of 1.17 and of the newest library.

use core::mem::offset_of;

use super::{domain, endpoint, fabric, queues, transfers};

/// Fails to compile where a size is another.
macro_rules! size {
    ($type:ty, $bytes:literal) => {
        const _: () = assert!(size_of::<$type>() == $bytes);
    };
}

/// Fails to compile where a field is elsewhere.
macro_rules! offset {
    ($type:ty, $field:ident, $bytes:literal) => {
        const _: () = assert!(offset_of!($type, $field) == $bytes);
    };
}

size!(fabric::Fid, 24);
size!(fabric::FidOps, 56);
size!(fabric::Provider, 72);
size!(fabric::Info, 120);
size!(fabric::TxAttr, 80);
size!(fabric::RxAttr, 64);
size!(fabric::EpAttr, 96);
size!(fabric::DomainAttr, 192);
size!(fabric::NewDomainAttr, 232);
size!(fabric::FabricAttr, 32);
size!(fabric::FidFabric, 40);
size!(fabric::FabricOps, 56);
size!(domain::FidDomain, 40);
size!(domain::DomainOps, 104);
size!(domain::MrOps, 32);
size!(domain::FidMr, 40);
size!(domain::AvAttr, 48);
size!(domain::FidAv, 32);
size!(domain::AvOps, 96);
size!(domain::AtomicAttr, 16);
size!(endpoint::FidEp, 80);
size!(endpoint::FidPep, 40);
size!(endpoint::EpOps, 72);
size!(endpoint::CmOps, 80);
size!(endpoint::CollectiveOps, 96);
size!(transfers::Msg, 48);
size!(transfers::MsgTagged, 64);
size!(transfers::MsgRma, 64);
size!(transfers::MsgAtomic, 72);
size!(transfers::RmaIov, 24);
size!(transfers::RmaIoc, 24);
size!(transfers::Ioc, 16);
size!(transfers::MsgOps, 80);
size!(transfers::TaggedOps, 80);
size!(transfers::RmaOps, 80);
size!(transfers::AtomicOps, 112);
size!(queues::EqAttr, 32);
size!(queues::EqEntry, 24);
size!(queues::EqCmEntry, 16);
size!(queues::EqErrEntry, 48);
size!(queues::FidEq, 32);
size!(queues::EqOps, 48);
size!(queues::CqTaggedEntry, 48);
size!(queues::CqErrEntry, 88);
size!(queues::CqAttr, 40);
size!(queues::FidCq, 32);
size!(queues::CqOps, 72);
size!(queues::PollAttr, 8);
size!(queues::FidPoll, 32);
size!(queues::PollOps, 32);
size!(queues::CntrAttr, 24);
size!(queues::FidCntr, 32);
size!(queues::CntrOps, 72);

offset!(fabric::Info, nic, 112);
offset!(fabric::Info, handle, 64);
offset!(fabric::Info, tx_attr, 72);
offset!(fabric::TxAttr, tclass, 72);
offset!(fabric::EpAttr, tx_ctx_cnt, 64);
offset!(fabric::EpAttr, auth_key, 88);
offset!(fabric::DomainAttr, mr_mode, 36);
offset!(fabric::DomainAttr, mr_key_size, 40);
offset!(fabric::DomainAttr, caps, 136);
offset!(fabric::DomainAttr, mr_cnt, 176);
offset!(fabric::DomainAttr, tclass, 184);
offset!(fabric::FabricAttr, api_version, 28);
offset!(fabric::FidFabric, api_version, 32);
offset!(fabric::Provider, name, 40);
offset!(fabric::Provider, cleanup, 64);
offset!(fabric::FabricOps, trywait, 40);
offset!(domain::DomainOps, query_atomic, 72);
offset!(domain::MrAttr, context, 40);
offset!(domain::AvAttr, flags, 40);
offset!(domain::AvOps, straddr, 48);
offset!(endpoint::CmOps, getname, 16);
offset!(endpoint::CmOps, shutdown, 64);
offset!(fabric::FabricOps, passive_ep, 16);
offset!(transfers::MsgAtomic, datatype, 48);
offset!(transfers::MsgAtomic, data, 64);
offset!(transfers::AtomicOps, compwritevalid, 104);
offset!(queues::CqAttr, wait_cond, 28);
offset!(queues::CqErrEntry, err_data_size, 72);
offset!(queues::CntrAttr, flags, 16);
offset!(queues::EqAttr, wait_obj, 16);
