//go:build linux && (amd64 || arm64)

package disktest

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A disk that loses what the system writes back: a file system on a file with holes,
// which cannot be filled any more, since the file system that it lies on is full.
const lossyBytes = 48 << 20

// within is how soon every process has to refuse.
const within = time.Second

// lossy is a store on such a disk, and the processes that use it.
type lossy struct {
	*disk
	tmpfs   string
	store   string
	clients []*process
	seen    []int // events of each that were looked at
}

func newLossy(t *testing.T) *lossy {
	canMount(t, "mkfs.ext4")
	s := &lossy{tmpfs: tmpfs(t, lossyBytes)}
	s.disk = newDisk(t, s.tmpfs, format{
		name: "ext4 without a journal", mkfs: []string{"mkfs.ext4", "-q", "-F", "-b", "4096", "-O", "^has_journal", "-E", "nodiscard"}, options: "loop", bytes: lossyBytes,
	})
	s.pageByPage()
	s.store = filepath.Join(s.at, "jobs")
	for _, q := range queues {
		p := start(t, plan{Role: asClient, Store: s.store, Queue: q})
		_, n := p.await(0, func(e event) bool { return e.Call == "open" })
		s.clients, s.seen = append(s.clients, p), append(s.seen, n)
	}
	return s
}

// pageByPage makes the kernel write one block after the other: of a larger write of
// which it could make a part, some kernels' loop devices say that it was made.
func (s *lossy) pageByPage() {
	s.t.Helper()
	for _, name := range loops(s.t, s.tmpfs) {
		must(s.t, os.WriteFile("/sys/block/"+name+"/queue/max_sectors_kb", []byte("4"), 0))
	}
}

// ask lets a client make a call, and returns what became of it.
func (s *lossy) ask(i int, call string) (e event) {
	s.t.Helper()
	_, err := io.WriteString(s.clients[i].stdin, call+"\n")
	must(s.t, err)
	e, s.seen[i] = s.clients[i].await(s.seen[i], func(e event) bool { return e.Call == call && !e.Begun })
	return e
}

// breakDown makes a hole of every block of zeros, the log's room for what comes
// included, and takes all room that there is for others.
func (s *lossy) breakDown() {
	s.t.Helper()
	f, err := os.OpenFile(s.image, os.O_RDWR, 0)
	must(s.t, err)
	defer f.Close()
	const block = 4096
	zeros, b := make([]byte, block), make([]byte, block)
	for off := int64(0); off < lossyBytes; off += block {
		_, err := f.ReadAt(b, off)
		must(s.t, err)
		if bytes.Equal(b, zeros) {
			must(s.t, unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, off, block))
		}
	}
	takeRest(s.t, filepath.Join(s.tmpfs, "rest"))
}

// fail lets the first client enqueue until the disk has lost what it was given.
func (s *lossy) fail() {
	s.t.Helper()
	for i := range s.clients {
		s.ask(i, "enqueue")
		s.ask(i, "claim")
	}
	s.breakDown()
	for n := 0; ; n++ {
		switch e := s.ask(0, "enqueue"); {
		case e.is("poisoned"):
			s.t.Logf("after %d jobs: %s", n, e.Err)
			return
		case e.Err != "":
			s.t.Fatalf("the disk fails in another way than it should: %s", e.Err)
		case n > lossyBytes/20_000:
			s.t.Fatal("the disk does not fail")
		}
	}
}

// refuses wants that no client changes anything, each says why, and all can read.
func (s *lossy) refuses(begun time.Time) {
	s.t.Helper()
	for i, q := range queues {
		for _, call := range []string{"enqueue", "ack"} {
			e := s.ask(i, call)
			took := time.Since(begun)
			if !e.is("poisoned") || !strings.Contains(e.Err, "sync") || !explained(e.Err) || took > within {
				s.t.Errorf("%s of queue %s, after %v: %+v", call, q, took, e)
			}
		}
		if e := s.ask(i, "health"); e.Status != "poisoned" || !explained(e.Err) {
			s.t.Errorf("health: %+v", e)
		}
		if e := s.ask(i, "count"); e.Err != "" || e.Number == 0 {
			s.t.Errorf("a read: %+v", e)
		}
	}
}

func explained(text string) bool {
	return strings.Contains(text, syscall.EIO.Error()) || strings.Contains(text, syscall.ENOSPC.Error())
}

// end kills the clients, mends the disk, and returns what they told.
func (s *lossy) end() *ledger {
	s.t.Helper()
	l := newLedger()
	for _, p := range s.clients {
		p.kill()
		events, _ := p.told()
		l.take(events)
	}
	must(s.t, syscall.Mount("none", s.tmpfs, "tmpfs", syscall.MS_REMOUNT, fmt.Sprintf("size=%d,mode=700", 2*lossyBytes)))
	return l
}

// restart mounts the disk anew: nothing is left of what was in memory.
func (s *lossy) restart() {
	s.t.Helper()
	s.unmount()
	check := exec.Command("e2fsck", "-f", "-y", s.image)
	if out, err := check.CombinedOutput(); err != nil && check.ProcessState.ExitCode() != 1 { // it mended what no journal did
		s.t.Fatalf("e2fsck: %v\n%s", err, out)
	}
	s.mount()
	forgetBoot(s.t, s.store)
}

// TestADiskThatLosesWritesStopsEveryProcess lets writing back fail: nothing is
// acknowledged from then on, every process says so and why, reads go on. What is
// there afterwards is what was acknowledged, whether the machine is restarted or
// its processes alone, who would still read from memory what the disk has lost.
func TestADiskThatLosesWritesStopsEveryProcess(t *testing.T) {
	for _, restarted := range []bool{true, false} {
		t.Run(map[bool]string{true: "the machine is restarted", false: "the processes are"}[restarted], func(t *testing.T) {
			s := newLossy(t)
			s.fail()
			s.refuses(time.Now())
			l := s.end()
			if restarted {
				s.restart()
			}
			must(t, l.judge(plan{Store: s.store, Reboot: restarted}))
			s.restart()
			must(t, l.sound(s.store))
		})
	}
}
