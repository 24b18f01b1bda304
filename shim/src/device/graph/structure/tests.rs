//! Orders of nodes, and graphs within graphs.

use super::*;

#[test]
fn orders_by_table() {
    /// Per node those before it, and the order.
    type Case = (&'static [&'static [usize]], Option<&'static [usize]>);
    let cases: [Case; 7] = [
        (&[], Some(&[])),
        (&[&[], &[], &[]], Some(&[0, 1, 2])),
        // A chain that was added backwards.
        (&[&[1], &[2], &[]], Some(&[2, 1, 0])),
        // A diamond.
        (&[&[], &[0], &[0], &[1, 2]], Some(&[0, 1, 2, 3])),
        // 0 comes last, and of 1 and 2 the first.
        (&[&[1, 2], &[], &[]], Some(&[1, 2, 0])),
        (&[&[1], &[0]], None),
        (&[&[], &[0, 2], &[1]], None),
    ];
    for (edges, expected) in cases {
        let edges: Vec<Vec<usize>> = edges.iter().map(|before| before.to_vec()).collect();
        assert_eq!(topological(&edges).as_deref(), expected, "{edges:?}");
    }
}

#[test]
fn a_sequence_has_the_edges_of_the_graph() {
    let add = |graph: &Arc<Graph>, operation, after: &[usize]| graph.add(operation, None, after.to_vec()).unwrap();
    let (child, _) = Graph::create();
    let inner = add(&child, Operation::Empty, &[]);
    add(&child, Operation::Empty, &[inner]);
    add(&child, Operation::Empty, &[inner]);
    let (graph, _) = Graph::create();
    let first = add(&graph, Operation::Empty, &[]);
    let nested = add(&graph, Operation::Child(child.copy(true).0), &[first]);
    let nothing = add(&graph, Operation::Child(Graph::create().0.copy(true).0), &[first]);
    let off = add(&graph, Operation::Empty, &[nested]);
    add(&graph, Operation::Empty, &[off, nothing]);
    let disable = |entry: &mut Entry| {
        entry.is_enabled = false;
        Ok(())
    };
    graph.change(off, disable).unwrap();
    // The first; three of the child graph; the last, behind what the node that is off and the empty graph come after.
    let expected: [&[usize]; 5] = [&[], &[0], &[1], &[1], &[0, 2, 3]];
    assert_eq!(graph.sequence().unwrap().after, expected);
}

#[test]
fn edges_nodes_and_copies() {
    let (graph, handle) = Graph::create();
    let add = |after: &[usize]| graph.add(Operation::Empty, None, after.to_vec());
    let first = add(&[]).unwrap();
    let second = add(&[first]).unwrap();
    let third = add(&[]).unwrap();
    assert_eq!(add(&[first, first]), Err(CudaError::INVALID_VALUE));
    assert_eq!(add(&[0]), Err(CudaError::INVALID_VALUE));
    for (edge, is_new) in [((first, second), true), ((third, second), false), ((first, first), true)] {
        assert_eq!(graph.connect(&[edge], is_new), Err(CudaError::INVALID_VALUE), "{edge:?}");
    }
    graph.connect(&[(second, third)], true).unwrap();
    assert_eq!(graph.until(&[second]), BTreeSet::from([first, second]));
    let handles =
        |graph: &Graph| graph.sequence().unwrap().entries.iter().map(|entry| entry.handle).collect::<Vec<_>>();
    assert_eq!(handles(&graph), [first, second, third]);

    let (copy, copied) = graph.copy(false);
    let origins: Vec<_> = copy.sequence().unwrap().entries.iter().map(|entry| entry.origin).collect();
    assert_eq!(origins, [first, second, third]);
    assert!(!copy.has(first));
    graph.remove(second).unwrap();
    assert_eq!(handles(&graph), [first, third]);
    assert_eq!(copy.entries().len(), 3, "a copy is its own");
    graph.connect(&[(third, first)], true).unwrap();
    graph.connect(&[(first, third)], true).unwrap();
    assert_eq!(graph.sequence().map(drop), Err(CudaError::INVALID_VALUE), "a cycle");

    destroy(handle).unwrap();
    assert!(resolve(handle).is_err() && graph_of(first).is_ok());
    drop(graph);
    assert!(graph_of(first).is_err());
    destroy(copied).unwrap();
}
