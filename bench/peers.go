package main

// peers in the order in which they are listed.
var peers = []*peer{
	spoolPeer, protoPeer, handPeer, goqitePeer, backlitePeer, riverSQLitePeer, bboltPeer, walPeer,
	riverPostgresPeer, asynqPeer, beanstalkdPeer, natsPeer,
}

func findPeer(name string) *peer {
	for _, p := range append(redisPeers(), peers...) {
		if p.name == name {
			return p
		}
	}
	return nil
}
