//! The race table of the allocator against the pure engine: worlds as the table writes them, an
//! API server in memory that holds writes to their preconditions, one or two controllers, and the
//! invariants I1–I4 whenever all is quiet.
//!
//! The race table's rows are in the tests' names. The checklist of the behaviour that is wanted:
//!
//! | line | shown by |
//! | --- | --- |
//! | 1 nothing is given before all claims are recorded | `row_03_…`, `a_lost_store_…`; that the caches are synced is the caller's part |
//! | 2 recorded by age, then uid | `row_01_…`, `row_02_…`, `the_order_of_the_list_decides_nothing` |
//! | 3 events during the start | `row_05_…`, `row_06_…`; there is no queue, a round sees what is there |
//! | 4 a deposed leader's writes fail | `row_24_…` to `row_27_…`, `row_44_…` |
//! | 5 a new leader writes nothing | `a_new_leader_writes_nothing_where_all_is_right`, I4 |
//! | 6 every deviation is repaired | `every_world_is_unique_…`; the period is the caller's part |
//! | 7 one address for each family | `both_families_and_what_each_policy_means`, I2 |
//! | 8 no network's edges | `avoided_pinned_and_edge_…`, `model::range` for /31 and /32 |
//! | 9 status before externalIPs, and back | `row_12_…`; the order of the two writes is the caller's part |
//! | 10 others' externalIPs stay | `row_35_…`, `row_42_…`, `row_32_…` |
//! | 11 ours is put back | `row_41_…` |
//! | 12 requests | `row_38_…` to `row_40_…`, `every_refusal_names_its_rule`, `whoever_waits_…` |
//! | 13 failed writes leak nothing | `row_07_…` to `row_10_…`, `row_13_…`, `answers_that_are_lost_…`, `row_44_…` |
//! | 14 one address a family, sharers fit | I1 to I3, `tests/allocation/sharing.rs` |
//! | 15 a delete frees, a missed one too | `row_16_…` to `row_18_…` |
//! | 16 so does a change of type or class | `row_14_…`, `row_15_…`, `row_31_…`, `row_35_…` |
//! | 17 outside an edited range: kept | `row_32_…`, `an_edited_range_touches_nobody`, `an_address_keeps_its_home_…` |
//! | 18 others' Services; contested ones | `row_31_…`, `row_33_…`, `a_contested_status_…` |
//! | 19 what is no address is replaced | `row_34_…` |
//! | 20 an admin's free address | `row_28_…`, `row_29_…`, `a_request_wins_over_…` |
//! | 21 an admin's blank | `row_30_…` |
//! | 22 others' externalIPs reserve | `row_36_…`, `row_37_…` |
//! | 23 others' entries stay | `entries_of_others_stay_in_the_status` |
//! | 24 full: told once, no write | `row_19_…`; there is no queue |
//! | 25 the oldest waiting one is next | `row_20_…` to `row_22_…` |
//! | 26 retries | the caller's part |
//! | 27 rest after release | `row_43_…`, `a_namesake_that_comes_later_…`, `a_claim_that_nobody_heard_of_…` |
//! | 28 unset, off, set | the pool's reader's part |
//! | 29 overlaps | `the_younger_of_two_overlapping_pools_…`, `a_pool_that_becomes_wrong_…` |
//! | 30 several ranges | `several_ranges_are_filled_in_the_order_stated` |
//! | 31 a default range | there is none: a pool states its ranges |
//! | 32 a range edit touches only whom it concerns | `an_edited_range_touches_nobody`, `others_that_come_and_go_move_nobody` |

#![cfg(test)]

mod support {
    pub(crate) mod cluster {
        pub(crate) mod api;
        pub(crate) mod controller;
        pub(crate) mod judge;
        pub(crate) mod notation;
        pub(crate) mod scene;
    }
}

mod allocation {
    mod full;
    mod life;
    mod pinned;
    mod pools;
    mod properties;
    mod random;
    mod requests;
    mod sharing;
    mod size;
    mod start;
    mod writes;
}
