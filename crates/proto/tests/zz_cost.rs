use std::time::Instant;
use tabane_proto::Random;
use tabane_proto::crypto::*;
use tabane_proto::wire::*;
#[test]
fn cost() {
    let hello = |from: &str, to: &str| Hello {
        version: VERSION,
        wire: WireMode::Encrypted,
        cipher_aes: true,
        session: 1,
        from: from.parse().unwrap(),
        to: to.parse().unwrap(),
        bundle: 1,
        peer_bundle: 0,
        receive_buffer_bytes: 1,
        features: 0,
    };
    let key = ClusterKey::new([1; 32]);
    let mut r = Random::from_seed([1; 32]);
    let id = |n: &str, p: u8| {
        Identity::new(
            n.parse().unwrap(),
            Some([p; 32]),
            Some(public_key(&[p; 32])),
        )
        .unwrap()
    };
    let (a, b) = (id("a", 1), id("b", 2));
    let sa = Identity::shared("a".parse().unwrap());
    let sb = Identity::shared("b".parse().unwrap());
    for (what, a, b, p) in [
        ("NN", &sa, &sb, None),
        ("IK own", &a, &b, Some(public_key(&[2; 32]))),
        ("IK named", &a, &b, None),
    ] {
        let n = 1000;
        let t = Instant::now();
        let inits: Vec<_> = (0..n)
            .map(|_| Initiator::new(&key, a, p, &hello("a", "b"), &mut r))
            .collect();
        let ti = t.elapsed();
        let t = Instant::now();
        let rs: Vec<_> = inits
            .iter()
            .map(|i| Responder::read(&key, b, i.datagram(), &mut r).unwrap().1)
            .collect();
        let tr = t.elapsed();
        let t = Instant::now();
        let an: Vec<_> = rs
            .into_iter()
            .map(|r| r.respond(&hello("b", "a")).0)
            .collect();
        let ta = t.elapsed();
        let t = Instant::now();
        for (mut i, a) in inits.into_iter().zip(an) {
            i.on_response(&a).unwrap();
        }
        println!(
            "{what}: init {:?} read {:?} respond {:?} finish {:?} (per 1000)",
            ti,
            tr,
            ta,
            t.elapsed()
        );
    }
}
