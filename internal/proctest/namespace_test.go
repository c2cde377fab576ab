//go:build linux

package proctest

import (
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spoolq/spool"
)

// inAnotherTime has a process run where the clocks of the machine's boot show
// 100,000 s more: in a container of its own, as far as time is concerned.
func inAnotherTime(t *testing.T) func(*exec.Cmd) {
	t.Helper()
	unshare := []string{"unshare", "--time", "--monotonic", "100000", "--boottime", "100000", "--fork", "--kill-child"}
	if out, err := exec.Command(unshare[0], append(unshare[1:], "true")...).CombinedOutput(); err != nil {
		t.Skipf("no time namespaces for this user: %v: %s", err, out)
	}
	path, err := exec.LookPath(unshare[0])
	must(t, err)
	return func(cmd *exec.Cmd) {
		cmd.Args = append(unshare, cmd.Path)
		cmd.Path = path
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	}
}

// claimAtLast claims until there is something.
func (p *process) claimAtLast() (got event) {
	p.t.Helper()
	eventually(p.t, p.name+" gets the job", func() bool {
		got = p.ask(order{Do: "claim", Queue: spool.DefaultQueue, For: time.Minute})
		return len(got.IDs) > 0
	})
	return got
}

// TestLeasesHoldAcrossTimeNamespaces lets two processes whose monotonic clocks are a
// day apart claim from each other.
func TestLeasesHoldAcrossTimeNamespaces(t *testing.T) {
	dir := newStore(t)
	elsewhere := inAnotherTime(t)
	for _, far := range []int{0, 1} { // which of the two holds the lease
		t.Run(fmt.Sprint("process ", far, " holds it"), func(t *testing.T) {
			both := [2]*process{}
			for i, change := range [][]func(*exec.Cmd){{elsewhere}, nil} {
				both[i] = start(t, plan{Role: asClient, Store: dir, Name: fmt.Sprint("process ", i)}, change...)
				if a := both[i].ask(order{Do: "open"}); a.Text != "" {
					t.Fatal(a.Text)
				}
			}
			holder, other := both[far], both[1-far]
			if a := holder.ask(order{Do: "enqueue"}); a.Text != "" {
				t.Fatal(a.Text)
			}
			const ttl = 700 * time.Millisecond
			begun := now()
			lease := holder.ask(order{Do: "claim", Queue: spool.DefaultQueue, For: ttl})
			if len(lease.IDs) != 1 {
				t.Fatalf("claimed %+v", lease)
			}
			again := other.claimAtLast()
			took := now() - begun
			if took < ttl || again.id() != lease.id() || again.Token <= lease.Token {
				t.Errorf("a lease of %v ended after %v; the other got %+v after %+v", ttl, took, again, lease)
			}
			if a := holder.ask(order{Do: "ack", Queue: spool.DefaultQueue, ID: lease.id(), Token: lease.Token}); !strings.Contains(fmt.Sprint(a.Is), "lease lost") {
				t.Errorf("the late ack: %+v", a)
			}
			if a := other.ask(order{Do: "ack", Queue: spool.DefaultQueue, ID: again.id(), Token: again.Token}); a.Text != "" {
				t.Errorf("the ack: %s", a.Text)
			}
			holder.finish()
			other.finish()
		})
	}
}
