//! The simulated world around the operator: scheduler, kubelets, nodes and their gossip; and the faults.

use super::*;

impl Sim {
    /// Time goes on: scheduler, kubelets, processes, gossip.
    pub(super) fn live(&mut self, secs: i64) {
        for _ in 0..secs {
            self.now += 1;
            for name in self.pods.keys().cloned().collect::<Vec<_>>() {
                self.schedule(&name);
                self.kubelet(&name);
            }
            for name in self.processes.keys().cloned().collect::<Vec<_>>() {
                self.process(&name);
            }
            self.gossip();
            self.check();
        }
    }

    fn schedule(&mut self, name: &str) {
        let Some(pod) = self
            .pods
            .get(name)
            .filter(|pod| pod.host.is_none() && pod.gone_by.is_none())
        else {
            return;
        };
        let node = pod
            .node_uid
            .clone()
            .and_then(|uid| self.nodes.values().find(|node| node.uid == uid))
            .cloned();
        let Some(node) = node else {
            // The garbage collector takes Pods whose owner is gone.
            self.drop_pod(name);
            return;
        };
        let Some(claim) = self
            .claims
            .get(&names::claim_name(name))
            .filter(|claim| !claim.terminating)
            .cloned()
        else {
            return;
        };
        let pinned = self
            .disks
            .get(&claim.uid)
            .and_then(|disk| disk.host.clone());
        let fits: Vec<_> = self
            .hosts
            .iter()
            .filter(|(host, (state, zone))| {
                state.ready
                    && Some(zone) == node.spec.zone.as_ref()
                    && pinned.as_ref().is_none_or(|pinned| pinned == *host)
            })
            .map(|(host, _)| host.clone())
            .collect();
        let Some(host) = self.dice.pick(&fits) else {
            return;
        };
        if let Some(disk) = self.disks.get_mut(&claim.uid) {
            disk.host = Some(host.clone());
        }
        if let Some(pod) = self.pods.get_mut(name) {
            pod.host = Some(host);
        }
    }

    fn kubelet(&mut self, name: &str) {
        let Some(pod) = self.pods.get(name).cloned() else {
            return;
        };
        let Some(host) = pod.host.clone() else { return };
        let Some((state, _)) = self.hosts.get(&host) else {
            // The Pod garbage collector removes Pods of Kubernetes nodes that are gone.
            self.processes.remove(name);
            if self.dice.one_in(5) {
                self.drop_pod(name);
            }
            return;
        };
        if !state.ready {
            return;
        }
        if pod.gone_by.is_some() {
            if self.dice.one_in(2) {
                self.drop_pod(name);
            }
            return;
        }
        let Some(claim) = self.claims.get(&names::claim_name(name)).cloned() else {
            return;
        };
        if !self.processes.contains_key(name) {
            let member = self.disks.get(&claim.uid).is_some_and(|disk| disk.member);
            let process = Process {
                claim_uid: claim.uid,
                node: name.to_owned(),
                state: if member {
                    NodeState::Normal
                } else {
                    NodeState::WaitingForSeeds
                },
                founded: self.foundings.contains(
                    &self.disks[&self.claims[&names::claim_name(name)].uid]
                        .host_id
                        .clone()
                        .unwrap_or_default(),
                ),
                joined_in: JOIN_SECS,
            };
            self.processes.insert(name.to_owned(), process);
        }
        let ready = self
            .processes
            .get(name)
            .is_some_and(|process| process.state == NodeState::Normal);
        if let Some(pod) = self.pods.get_mut(name) {
            pod.address = Some(format!("ip-{}", pod.uid));
            pod.ready = ready;
        }
    }

    fn process(&mut self, name: &str) {
        let Some(mut process) = self.processes.get(name).cloned() else {
            return;
        };
        let Some(mut disk) = self.disks.get(&process.claim_uid).cloned() else {
            return;
        };
        let rack = self
            .nodes
            .get(name)
            .map(|node| node.spec.rack.clone())
            .unwrap_or_default();
        match process.state {
            NodeState::WaitingForSeeds => self.look_for_seeds(name, rack, &mut process, &mut disk),
            NodeState::Joining => {
                process.joined_in -= i64::from(self.others_up(&disk));
                if process.joined_in <= 0 {
                    self.note(format!("{name} is NORMAL"));
                    process.state = NodeState::Normal;
                    disk.member = true;
                    if let Some(id) = &disk.host_id {
                        self.ring.insert(
                            id.clone(),
                            Member {
                                rack: rack.clone(),
                                normal: true,
                                since: self.now,
                                last_alive: self.now,
                            },
                        );
                    }
                    if let Some(old) = self
                        .nodes
                        .get(name)
                        .and_then(|node| node.spec.replace_host_id.clone())
                    {
                        self.ring.remove(&old);
                    }
                }
            }
            _ => {}
        }
        self.disks.insert(process.claim_uid.clone(), disk);
        self.processes.insert(name.to_owned(), process);
    }

    /// Founds, begins to join, or goes on waiting, as the seed service says.
    fn look_for_seeds(&mut self, name: &str, rack: String, process: &mut Process, disk: &mut Disk) {
        match self.ask_for_seeds(&process.node) {
            Some(answer) if answer.is_seed => {
                let id = self.id("ring");
                self.note(format!("{name} FOUNDS {id}"));
                self.foundings.push(id.clone());
                *disk = Disk {
                    host_id: Some(id.clone()),
                    member: true,
                    ..disk.clone()
                };
                self.ring.insert(
                    id,
                    Member {
                        rack,
                        normal: true,
                        since: self.now,
                        last_alive: self.now,
                    },
                );
                process.state = NodeState::Normal;
                process.founded = true;
            }
            Some(answer) if !answer.seeds.is_empty() => {
                let id = disk.host_id.clone().unwrap_or_else(|| self.id("host-id"));
                disk.host_id = Some(id.clone());
                self.ring.insert(
                    id,
                    Member {
                        rack,
                        normal: false,
                        since: self.now,
                        last_alive: self.now,
                    },
                );
                process.state = NodeState::Joining;
            }
            Some(_) | None => {}
        }
    }

    /// A node can join only while every member but the one it replaces is up.
    fn others_up(&self, disk: &Disk) -> bool {
        let replaced = |id: &str| {
            let joining = disk.host_id.as_deref();
            self.processes.values().any(|process| {
                self.disks
                    .get(&process.claim_uid)
                    .and_then(|one| one.host_id.as_deref())
                    == joining
                    && self
                        .nodes
                        .get(&process.node)
                        .and_then(|node| node.spec.replace_host_id.as_deref())
                        == Some(id)
            })
        };
        self.ring
            .iter()
            .filter(|(id, member)| member.normal && !replaced(id))
            .all(|(_, member)| member.last_alive + 1 >= self.now)
    }

    fn ask_for_seeds(&mut self, node: &str) -> Option<helenus_crds::SeedAnswer> {
        let mut cluster: helenus_crds::CassandraCluster = serde_json::from_value(serde_json::json!({
            "apiVersion": "helenus.dev/v1alpha1", "kind": "CassandraCluster", "metadata": {"name": "o"},
            "spec": {"clusterName": "o", "datacenters": []}
        }))
        .unwrap();
        cluster.status = Some(self.cluster.status.clone());
        let nodes: Vec<_> = self
            .nodes
            .values()
            .map(|node| {
                let mut object = CassandraNode::new(&node.name, node.spec.clone());
                object.metadata.uid = Some(node.uid.clone());
                object.status = Some(node.status.clone());
                object
            })
            .collect();
        seeds::answer(Some(&cluster), &nodes.iter().collect::<Vec<_>>(), node).ok()
    }

    fn gossip(&mut self) {
        for (pod, process) in &self.processes {
            let runs = self
                .pods
                .get(pod)
                .and_then(|pod| pod.host.as_ref())
                .and_then(|host| self.hosts.get(host));
            let id = self
                .disks
                .get(&process.claim_uid)
                .and_then(|disk| disk.host_id.clone());
            if let (Some((host, _)), Some(id)) = (runs, id)
                && host.ready
                && let Some(member) = self.ring.get_mut(&id)
            {
                member.last_alive = self.now;
            }
        }
        // A node that never was a member is forgotten when it is silent.
        let now = self.now;
        self.ring
            .retain(|_, member| member.normal || member.last_alive + FORGET_SECS > now);
    }

    pub(super) fn check(&self) {
        self.must(self.foundings.len() <= 1, "O1: two rings were founded");
        let joining = self
            .processes
            .values()
            .filter(|process| process.state == NodeState::Joining)
            .count();
        self.must(joining <= 1, "O2: two nodes join at a time");
    }

    // ---- faults

    pub(super) fn fault(&mut self) {
        let pods: Vec<_> = self.pods.keys().cloned().collect();
        let hosts: Vec<_> = self.hosts.keys().cloned().collect();
        match self.dice.roll(10) {
            0 | 1 => {
                if let Some(pod) = self.dice.pick(&pods) {
                    self.note(format!("a person deletes Pod {pod}"));
                    let uid = self.pods[&pod].uid.clone();
                    let force = self.dice.one_in(3);
                    self.delete_pod(&pod, &uid, force);
                }
            }
            2 => {
                if let Some(pod) = self.dice.pick(&pods) {
                    self.processes.remove(&pod);
                }
            }
            3 => {
                if let Some(host) = self.dice.pick(&hosts) {
                    self.note(format!("{host} is silent"));
                    self.hosts.get_mut(&host).unwrap().0.ready = false;
                }
            }
            4 | 5 => self.mend(),
            6 => {
                let nodes = 3 + usize::try_from(self.dice.roll(3)).unwrap();
                self.note(format!("{nodes} nodes are asked for"));
                let before = self.cluster.spec.as_ref().map_or(0, |spec| spec.nodes);
                self.cluster.spec = Ok(spec(nodes.max(before)));
                self.cluster_version = self.bump();
            }
            7 | 8 if self.may_lose_a_volume() => {
                if let Some(host) = self.dice.pick(&hosts) {
                    self.lose_host(&host);
                }
            }
            9 if self.may_lose_a_volume() => {
                let claims: Vec<_> = self.claims.keys().cloned().collect();
                if let Some(claim) = self.dice.pick(&claims) {
                    self.note(format!("a person deletes claim {claim}"));
                    self.remove_claim(&claim);
                }
            }
            _ => {}
        }
    }

    /// Volumes are lost one at a time and after the founding: losing two at once needs a person.
    fn may_lose_a_volume(&self) -> bool {
        let whole = |node: &NodeObject| {
            let claim = self.claims.get(&names::claim_name(&node.name));
            claim.is_some_and(|claim| {
                claim.lost.is_none()
                    && !claim.terminating
                    && node
                        .status
                        .claim_uid
                        .as_ref()
                        .is_none_or(|uid| uid == &claim.uid)
            })
        };
        let replacing = self
            .cluster
            .status
            .operation
            .as_ref()
            .is_some_and(|operation| operation.replaces.is_some());
        self.cluster.status.cluster_id.is_some()
            && !replacing
            && self.nodes.len() >= 3
            && self.nodes.values().all(whole)
    }

    fn lose_host(&mut self, host: &str) {
        let here: Vec<_> = self
            .disks
            .iter()
            .filter(|(_, disk)| disk.host.as_deref() == Some(host))
            .map(|(uid, _)| uid.clone())
            .collect();
        if here.len() > 1 {
            return;
        }
        self.note(format!("{host} is gone for good, with {here:?}"));
        let (_, zone) = self.hosts.remove(host).unwrap();
        self.add_host(&zone);
        for claim in self
            .claims
            .values_mut()
            .filter(|claim| here.contains(&claim.uid))
        {
            claim.lost = Some("its host is gone".to_owned());
        }
    }

    pub(super) fn mend(&mut self) {
        for (host, _) in self.hosts.values_mut() {
            host.ready = true;
        }
    }
}
