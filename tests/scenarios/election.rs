//! Who becomes Active, and when.

use barevip::engine::vrrp::role::Role;

use crate::support::lan::plans::Setup;
use crate::support::lan::scene::{FAMILIES, Scene, down};
use crate::support::lan::time::MS;

#[test]
fn v1_all_start_at_once_and_only_the_first_binds() {
    for family in FAMILIES {
        let setup = Setup { family, machines: 3, ..Setup::default() };
        let mut scene = Scene::new(setup.clone());
        scene.start_all();
        scene.run(5_000);
        assert_eq!(scene.active(0), [0]);
        assert_eq!(scene.became_active(0, 0, 0), [down(&setup, 0)]);
        assert_eq!(scene.lan.judge.most_active, [1]);
        for vip in 0..2 {
            assert_eq!(scene.holders(scene.vip(0, vip)), [0]);
            assert_eq!(scene.client(scene.vip(0, vip)), Some(0));
        }
        assert_eq!(scene.role(1, 0), Role::Backup);
        assert!(scene.adverts(0, 1).is_empty() && scene.adverts(0, 2).is_empty());
        scene.lan.verdict();
        scene.run_for(MS);
    }
}
