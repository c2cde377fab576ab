package crashfs_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spoolq/spool/internal/vfs"
	"github.com/spoolq/spool/internal/vfs/crashfs"
)

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func is(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: got error %v, want %v", what, err, want)
	}
}

func open(t *testing.T, p *crashfs.Process, name string, flag int) vfs.File {
	t.Helper()
	f, err := p.Open(name, flag)
	ok(t, err)
	return f
}

// create makes a file that is durable, name and all.
func create(t *testing.T, p *crashfs.Process, name, content string) vfs.File {
	t.Helper()
	f := open(t, p, name, os.O_RDWR|os.O_CREATE)
	write(t, f, content, 0)
	ok(t, f.Sync())
	ok(t, p.SyncDir("/"))
	return f
}

func write(t *testing.T, f vfs.File, content string, off int64) {
	t.Helper()
	n, err := f.WriteAt([]byte(content), off)
	if err != nil || n != len(content) {
		t.Fatalf("wrote %d of %d bytes, error %v", n, len(content), err)
	}
}

func sectors(letters string) string {
	var b strings.Builder
	for _, l := range letters {
		b.WriteString(strings.Repeat(string(l), 512))
	}
	return b.String()
}

// tree shows the files of a machine: names, each with its content in short.
func tree(t *testing.T, m *crashfs.Machine, dir string) string {
	t.Helper()
	p := m.Process()
	names, err := p.ReadDir(dir)
	ok(t, err)
	var all []string
	for _, base := range names {
		name := strings.TrimSuffix(dir, "/") + "/" + base
		info, err := p.Stat(name)
		ok(t, err)
		if info.Dir {
			all = append(all, base+"/("+tree(t, m, name)+")")
			continue
		}
		all = append(all, base+"="+short(content(t, m, name)))
	}
	return strings.Join(all, " ")
}

func content(t *testing.T, m *crashfs.Machine, name string) string {
	t.Helper()
	b, err := m.ReadFile(name)
	ok(t, err)
	return string(b)
}

// short writes runs of a byte as "a512", zeros as "0"; a single one as itself.
func short(s string) string {
	if s == "" {
		return "empty"
	}
	var b strings.Builder
	for len(s) > 0 {
		n := len(s) - len(strings.TrimLeft(s, s[:1]))
		l := strings.ReplaceAll(s[:1], "\x00", "0")
		if n == 1 {
			b.WriteString(l)
		} else {
			fmt.Fprintf(&b, "%s%d", l, n)
		}
		s = s[n:]
	}
	return b.String()
}

// outcomes is what all possible power cuts leave, each once, in order.
func outcomes(t *testing.T, m *crashfs.Machine) []string {
	t.Helper()
	seen := map[string]bool{}
	for _, next := range m.Crashes(5000, 1) {
		seen[tree(t, next, "/")] = true
	}
	return slices.Sorted(maps.Keys(seen))
}

func TestAPowerCutLeavesAnyPartOfWhatIsNotSynced(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(t *testing.T, m *crashfs.Machine, p *crashfs.Process)
		want []string
	}{
		{"what is synced stays", func(t *testing.T, m *crashfs.Machine, p *crashfs.Process) {
			create(t, p, "/f", "abc")
		}, []string{"f=abc"}},

		{"a name that is not synced may vanish, synced content and all", func(t *testing.T, m *crashfs.Machine, p *crashfs.Process) {
			f := open(t, p, "/f", os.O_RDWR|os.O_CREATE)
			write(t, f, "abc", 0)
			ok(t, f.Sync())
		}, []string{"", "f=abc"}},

		{"a synced name does not keep content", func(t *testing.T, m *crashfs.Machine, p *crashfs.Process) {
			f := open(t, p, "/f", os.O_RDWR|os.O_CREATE)
			write(t, f, "abc", 0)
			ok(t, p.SyncDir("/"))
		}, []string{"f=03", "f=abc", "f=empty"}},

		{"each sector is old or new", func(t *testing.T, m *crashfs.Machine, p *crashfs.Process) {
			f := create(t, p, "/f", sectors("aaa"))
			write(t, f, sectors("bbb"), 0)
		}, []string{
			"f=a1024b512", "f=a1536", "f=a512b1024", "f=a512b512a512",
			"f=b1024a512", "f=b1536", "f=b512a1024", "f=b512a512b512",
		}},

		{"an append bares a hole before good bytes", func(t *testing.T, m *crashfs.Machine, p *crashfs.Process) {
			f := create(t, p, "/f", strings.Repeat("a", 400))
			write(t, f, strings.Repeat("b", 600), 400)
		}, []string{
			"f=a400", "f=a4000112b488", "f=a4000600", "f=a400b1120488", "f=a400b600",
		}},

		{"of three syncs only what came after the last is open", func(t *testing.T, m *crashfs.Machine, p *crashfs.Process) {
			f := create(t, p, "/f", "a")
			write(t, f, "b", 1)
			ok(t, f.Sync())
			write(t, f, "c", 2)
			ok(t, f.Sync())
			write(t, f, "X", 0)
		}, []string{"f=Xbc", "f=abc"}},

		{"a sync through another file of the same name counts", func(t *testing.T, m *crashfs.Machine, p *crashfs.Process) {
			f := create(t, p, "/f", "a")
			write(t, f, "b", 0)
			ok(t, open(t, m.Process(), "/f", os.O_RDONLY).Sync())
		}, []string{"f=b"}},

		{"a truncation may be lost, its data with it", func(t *testing.T, m *crashfs.Machine, p *crashfs.Process) {
			f := create(t, p, "/f", sectors("ab"))
			ok(t, f.Truncate(512))
		}, []string{"f=a512", "f=a512b512"}},

		{"a truncation and a growth leave old bytes or zeros", func(t *testing.T, m *crashfs.Machine, p *crashfs.Process) {
			f := create(t, p, "/f", sectors("ab"))
			ok(t, f.Truncate(512))
			ok(t, f.Truncate(1024))
		}, []string{"f=a5120512", "f=a512b512"}},

		{"a synced truncation brings no old bytes back", func(t *testing.T, m *crashfs.Machine, p *crashfs.Process) {
			f := create(t, p, "/f", sectors("abc"))
			ok(t, f.Truncate(100))
			ok(t, f.Sync())
			ok(t, f.Truncate(2000))
		}, []string{"f=a100", "f=a10001900"}},

		{"a truncation to a page and a growth leave old bytes or zeros", func(t *testing.T, m *crashfs.Machine, p *crashfs.Process) {
			f := create(t, p, "/f", sectors("aaaaaaaab"))
			ok(t, f.Truncate(4096))
			ok(t, f.Truncate(4096+512))
		}, []string{"f=a40960512", "f=a4096b512"}},

		{"zeros over zeros leave nothing open", func(t *testing.T, m *crashfs.Machine, p *crashfs.Process) {
			f := create(t, p, "/f", "")
			ok(t, f.Truncate(8192))
			ok(t, f.Sync())
			write(t, f, string(make([]byte, 8192)), 0)
		}, []string{"f=08192"}},

		{"a rename happens or does not", func(t *testing.T, m *crashfs.Machine, p *crashfs.Process) {
			create(t, p, "/f", "old")
			create(t, p, "/f.new", "new")
			ok(t, p.Rename("/f.new", "/f"))
		}, []string{"f=new", "f=old f.new=new"}},

		{"a removal of what a rename brought does not reach what was there", func(t *testing.T, m *crashfs.Machine, p *crashfs.Process) {
			create(t, p, "/f", "old")
			create(t, p, "/f.new", "new")
			ok(t, p.Rename("/f.new", "/f"))
			ok(t, p.Remove("/f"))
		}, []string{"", "f=new", "f=old f.new=new"}},

		{"a synced rename stays", func(t *testing.T, m *crashfs.Machine, p *crashfs.Process) {
			create(t, p, "/f", "old")
			create(t, p, "/f.new", "new")
			ok(t, p.Rename("/f.new", "/f"))
			ok(t, p.SyncDir("/"))
		}, []string{"f=new"}},

		{"a rename before the sync of the content bares nothing", func(t *testing.T, m *crashfs.Machine, p *crashfs.Process) {
			create(t, p, "/f", "old")
			f := open(t, p, "/f.new", os.O_RDWR|os.O_CREATE)
			write(t, f, "new", 0)
			ok(t, p.Rename("/f.new", "/f"))
			ok(t, p.SyncDir("/"))
		}, []string{"f=03", "f=empty", "f=new"}},

		{"two changes of a directory are open each by itself", func(t *testing.T, m *crashfs.Machine, p *crashfs.Process) {
			create(t, p, "/a", "a")
			ok(t, p.Remove("/a"))
			ok(t, open(t, p, "/b", os.O_RDWR|os.O_CREATE).Close())
		}, []string{"", "a=a", "a=a b=empty", "b=empty"}},

		{"a removed file goes on and may come back", func(t *testing.T, m *crashfs.Machine, p *crashfs.Process) {
			f := create(t, p, "/f", "old")
			ok(t, p.Remove("/f"))
			write(t, f, "new", 0)
			ok(t, f.Sync())
		}, []string{"", "f=new"}},

		{"a synced removal stays", func(t *testing.T, m *crashfs.Machine, p *crashfs.Process) {
			create(t, p, "/f", "old")
			ok(t, p.Remove("/f"))
			ok(t, p.SyncDir("/"))
		}, []string{""}},

		{"a name made again is the old file, the new one or none", func(t *testing.T, m *crashfs.Machine, p *crashfs.Process) {
			create(t, p, "/f", "old")
			ok(t, p.Remove("/f"))
			f := open(t, p, "/f", os.O_RDWR|os.O_CREATE)
			write(t, f, "new", 0)
			ok(t, f.Sync())
		}, []string{"", "f=new", "f=old"}},

		{"a lost directory takes what is in it", func(t *testing.T, m *crashfs.Machine, p *crashfs.Process) {
			ok(t, p.Mkdir("/d"))
			ok(t, open(t, p, "/d/f", os.O_RDWR|os.O_CREATE).Close())
			ok(t, p.SyncDir("/d"))
		}, []string{"", "d/(f=empty)"}},

		{"the sync of a directory is not that of the one in it", func(t *testing.T, m *crashfs.Machine, p *crashfs.Process) {
			ok(t, p.Mkdir("/d"))
			ok(t, open(t, p, "/d/f", os.O_RDWR|os.O_CREATE).Close())
			ok(t, p.SyncDir("/"))
		}, []string{"d/()", "d/(f=empty)"}},

		{"a rename to another directory happens or does not", func(t *testing.T, m *crashfs.Machine, p *crashfs.Process) {
			ok(t, p.Mkdir("/d"))
			create(t, p, "/f", "x")
			ok(t, p.Rename("/f", "/d/g"))
		}, []string{"d/() f=x", "d/(g=x)"}},

		{"a file made and moved and synced in one place is not in two", func(t *testing.T, m *crashfs.Machine, p *crashfs.Process) {
			ok(t, p.Mkdir("/d"))
			ok(t, p.SyncDir("/"))
			ok(t, open(t, p, "/d/f", os.O_RDWR|os.O_CREATE).Close())
			ok(t, p.Rename("/d/f", "/f"))
			ok(t, p.SyncDir("/"))
		}, []string{"d/() f=empty"}},

		{"a write cut short by a full disk is open as far as it went", func(t *testing.T, m *crashfs.Machine, p *crashfs.Process) {
			f := create(t, p, "/f", strings.Repeat("a", 4000))
			m.SetDiskBytes(m.Used())
			n, err := f.WriteAt([]byte(strings.Repeat("b", 500)), 4000)
			if n != 96 || !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("wrote %d, error %v", n, err)
			}
		}, []string{"f=a4000", "f=a4000096", "f=a4000b96"}},

		{"a link stays", func(t *testing.T, m *crashfs.Machine, p *crashfs.Process) {
			ok(t, m.Symlink("/x", "/l"))
			ok(t, p.Rename("/l", "/k"))
			ok(t, p.Remove("/k"))
			create(t, p, "/f", "x")
		}, []string{"f=x"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := crashfs.New(crashfs.Config{})
			c.do(t, m, m.Process())
			if got := outcomes(t, m); !slices.Equal(got, c.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}

// This is what ext4 and XFS were both seen to leave of 10,000 synced bytes
// with 8,000 appended: some good bytes behind a hole.
func TestTheShapeThatKernelsLeaveIsAmongThem(t *testing.T) {
	m := crashfs.New(crashfs.Config{})
	f := create(t, m.Process(), "/f", strings.Repeat("A", 10000))
	write(t, f, strings.Repeat("B", 8000), 10000)
	next := m.Crash(func(u crashfs.Unit) int {
		if u.Kind == crashfs.Sector && u.Offset < 12288 {
			return 0
		}
		return u.Choices - 1
	})
	if got, want := short(content(t, next, "/f")), "A1000002288B5712"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestACrashIsANewBoot(t *testing.T) {
	m := crashfs.New(crashfs.Config{Seed: 7})
	p := m.Process()
	f := create(t, p, "/f", "x")
	ok(t, f.Lock())
	m.Clock.Advance(time.Hour)
	m.Inject(func(op crashfs.Op) error { return syscall.EIO })
	next := m.Crash(crashfs.KeepAll)
	q := next.Process()
	if q.BootID() == p.BootID() {
		t.Error("the boot id is the same")
	}
	if q.Monotonic() != 0 || !q.Wall().Equal(p.Wall()) {
		t.Errorf("the clocks say %v and %v, before the crash %v and %v", q.Monotonic(), q.Wall(), p.Monotonic(), p.Wall())
	}
	if q.PID() != p.PID() {
		t.Errorf("the first process has the id %d, then %d", p.PID(), q.PID())
	}
	var a, b [8]byte
	p.Rand(a[:])
	q.Rand(b[:])
	if a == b {
		t.Error("random numbers come again after a boot")
	}
	if got, err := open(t, q, "/f", os.O_RDWR).TryLock(); !got || err != nil {
		t.Errorf("the lock is not free: %v, %v", got, err)
	}
	if units := next.Units(); len(units) > 0 {
		t.Errorf("pending after a boot: %v", units)
	}
}

func TestACrashLeavesTheMachineAlone(t *testing.T) {
	m := crashfs.New(crashfs.Config{})
	p := m.Process()
	f := create(t, p, "/f", sectors("aaaaaaaaaa"))
	write(t, f, "b", 0)
	none, all := m.Crash(crashfs.KeepNone), m.Crash(crashfs.KeepAll)
	for i, other := range []*crashfs.Machine{none, all, m} { // all write to pages that they share
		g := open(t, other.Process(), "/f", os.O_RDWR)
		write(t, g, fmt.Sprint(i), 5000)
		if i == 0 {
			ok(t, g.Sync())
		}
	}
	for _, c := range []struct {
		what string
		m    *crashfs.Machine
		want string
	}{
		{"nothing kept", none, "a50000a119"},
		{"all kept", all, "ba49991a119"},
		{"the machine itself", m, "ba49992a119"},
		{"nothing kept once more", m.Crash(crashfs.KeepNone), "a5120"},
		{"nothing kept of all kept", all.Crash(crashfs.KeepNone), "ba5119"},
	} {
		if got := short(content(t, c.m, "/f")); got != c.want {
			t.Errorf("%s: got %s, want %s", c.what, got, c.want)
		}
	}
	write(t, f, "c", 1) // the open file goes on, too, in a page that all has
	if got := short(content(t, m, "/f")); got != "bca49982a119" {
		t.Errorf("after the crashes: %s", got)
	}
	if got := short(content(t, all, "/f")); got != "ba49991a119" {
		t.Errorf("a write to the machine reached what a crash left: %s", got)
	}
}

func TestStoresToAMapCountAsWritten(t *testing.T) {
	m := crashfs.New(crashfs.Config{})
	f := create(t, m.Process(), "/f", sectors("aaaaaaaa"))
	b, err := f.Map(4096)
	ok(t, err)
	b[0], b[512] = 'x', 'y'
	want := []string{
		"f=a4096", "f=a512ya3583", "f=xa4095", "f=xa511ya3583",
	}
	if got := outcomes(t, m); !slices.Equal(got, want) {
		t.Errorf("before a sync: got %q, want %q", got, want)
	}
	ok(t, f.Sync())
	b[1] = 'z'
	want = []string{"f=xa511ya3583", "f=xza510ya3583"}
	if got := outcomes(t, m); !slices.Equal(got, want) {
		t.Errorf("after a sync: got %q, want %q", got, want)
	}
	ok(t, f.Close())
	if got := outcomes(t, m); !slices.Equal(got, want) {
		t.Errorf("after the last close: got %q, want %q", got, want)
	}
}

func TestIgnoreSyncMakesNothingDurable(t *testing.T) {
	m := crashfs.New(crashfs.Config{IgnoreSync: true})
	f := create(t, m.Process(), "/f", "abc")
	ok(t, f.Sync())
	want := []string{"", "f=03", "f=abc", "f=empty"}
	if got := outcomes(t, m); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestStatesBetweenTwoSyncsCanBeLeftToo(t *testing.T) {
	for _, c := range []struct {
		versions int
		want     []string
	}{
		{0, []string{"f=a", "f=a02", "f=abc"}},
		{1, []string{"f=a", "f=a0", "f=a02", "f=ab", "f=ab0", "f=abc"}},
	} {
		m := crashfs.New(crashfs.Config{Versions: c.versions})
		f := create(t, m.Process(), "/f", "a")
		write(t, f, "X", 1) // too long ago to be among the last
		ok(t, f.Truncate(1))
		write(t, f, "b", 1)
		write(t, f, "c", 2)
		if got := outcomes(t, m); !slices.Equal(got, c.want) {
			t.Errorf("Versions %d: got %q, want %q", c.versions, got, c.want)
		}
	}
}

func TestATornSectorBeginsNewAndEndsOld(t *testing.T) {
	places := map[int]bool{}
	for seed := range uint64(20) {
		m := crashfs.New(crashfs.Config{Torn: true, Seed: seed})
		f := create(t, m.Process(), "/f", sectors("a"))
		write(t, f, sectors("b"), 0)
		got := outcomes(t, m)
		if len(got) != 3 || !slices.Contains(got, "f=a512") || !slices.Contains(got, "f=b512") {
			t.Fatalf("seed %d: got %q", seed, got)
		}
		b := content(t, m.Crash(func(u crashfs.Unit) int { return 1 }), "/f")
		at := strings.IndexByte(b, 'a')
		if b != strings.Repeat("b", at)+strings.Repeat("a", 512-at) {
			t.Errorf("seed %d: got %s", seed, short(b))
		}
		places[at] = true
	}
	if len(places) < 10 {
		t.Errorf("torn at %d places for 20 seeds", len(places))
	}
}

func TestCrashesTakesASampleWhenThereAreTooMany(t *testing.T) {
	m := crashfs.New(crashfs.Config{})
	f := create(t, m.Process(), "/f", sectors(strings.Repeat("a", 30)))
	write(t, f, sectors(strings.Repeat("b", 30)), 0)
	count, different := 0, map[string]string{}
	for name, next := range m.Crashes(100, 3) {
		count++
		different[content(t, next, "/f")] = name
	}
	if count != 100 || len(different) < 80 {
		t.Errorf("%d machines, %d of them different", count, len(different))
	}
	for what, s := range map[string]string{"nothing": sectors(strings.Repeat("a", 30)), "all": sectors(strings.Repeat("b", 30))} {
		if different[s] == "" {
			t.Errorf("none of them kept %s", what)
		}
	}
	again := 0
	for _, next := range m.Crashes(100, 3) {
		if different[content(t, next, "/f")] != "" {
			again++
		}
	}
	if again != 100 {
		t.Errorf("the same seed gives %d of 100 again", again)
	}
}

func TestBytesBehindASizeThatWasLostAreZero(t *testing.T) {
	m := crashfs.New(crashfs.Config{})
	f := create(t, m.Process(), "/f", "a")
	write(t, f, "b", 1)
	next := m.Crash(func(u crashfs.Unit) int { return map[bool]int{true: 1}[u.Kind == crashfs.Sector] })
	if got := content(t, next, "/f"); got != "a" {
		t.Errorf("the file holds %q", got)
	}
	ok(t, open(t, next.Process(), "/f", os.O_RDWR).Truncate(3))
	if got := content(t, next, "/f"); got != "a\x00\x00" {
		t.Errorf("made longer, it holds %q", got)
	}
}

func TestALostWriteTakesNoBlock(t *testing.T) {
	m := crashfs.New(crashfs.Config{})
	f := create(t, m.Process(), "/f", "")
	ok(t, f.Truncate(8192))
	ok(t, f.Sync())
	write(t, f, "a", 5000)
	for want, choose := range map[int64]crashfs.Choose{0: crashfs.KeepNone, 4096: crashfs.KeepAll} {
		if got := m.Crash(choose).Used(); got != want {
			t.Errorf("%d bytes are used, want %d", got, want)
		}
	}
}

func TestUnitsAreWhatThereIsToChoose(t *testing.T) {
	m := crashfs.New(crashfs.Config{})
	p := m.Process()
	f := create(t, p, "/f", strings.Repeat("a", 400))
	write(t, f, strings.Repeat("b", 600), 400)
	ok(t, p.Mkdir("/d"))
	var got []string
	for _, u := range m.Units() {
		got = append(got, u.String())
	}
	if want := []string{"entry /d", "size /f", "sector /f+0", "sector /f+512"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	ways := 0
	for range m.Crashes(100, 1) {
		ways++
	}
	if ways != 12 { // a lost size leaves nothing to choose in the sector behind it
		t.Errorf("there are 12 ways, %d came", ways)
	}
}

// What a removal hides can still be decided about when the removal is lost.
func TestCrashesCountsWhatOnlyALossBrings(t *testing.T) {
	m := crashfs.New(crashfs.Config{})
	p := m.Process()
	f := create(t, p, "/f", sectors("aaa"))
	write(t, f, sectors("bbb"), 0)
	ok(t, p.Remove("/f"))
	count := func(limit int) (n int) {
		for range m.Crashes(limit, 1) {
			n++
		}
		return n
	}
	if got := count(100); got != 9 {
		t.Errorf("there are 9 ways, %d came", got)
	}
	if got := count(5); got != 5 {
		t.Errorf("of 9 ways 5 were wanted, %d came", got)
	}
}

func TestKeepShareKeepsAboutThatMuch(t *testing.T) {
	m := crashfs.New(crashfs.Config{})
	f := create(t, m.Process(), "/f", sectors(strings.Repeat("a", 1000)))
	write(t, f, sectors(strings.Repeat("b", 1000)), 0)
	for _, c := range []struct{ percent, low, high int }{{0, 0, 0}, {25, 200, 300}, {75, 700, 800}, {100, 1000, 1000}} {
		b := content(t, m.Crash(crashfs.KeepShare(9, c.percent)), "/f")
		if got := strings.Count(b, "b") / 512; got < c.low || got > c.high {
			t.Errorf("%d %% kept %d of 1000 sectors", c.percent, got)
		}
	}
	if b := content(t, m.Crash(crashfs.KeepRandom(9)), "/f"); strings.Count(b, "b")/512 < 400 {
		t.Errorf("KeepRandom kept %d of 1000 sectors", strings.Count(b, "b")/512)
	}
}

func TestWriteFileIsDurableAndPassesLimits(t *testing.T) {
	m := crashfs.New(crashfs.Config{DiskBytes: 4096})
	ok(t, m.WriteFile("/f", []byte(sectors("abcdefghij"))))
	ok(t, m.WriteFile("/f", []byte("xy")))
	if got, want := tree(t, m.Crash(crashfs.KeepNone), "/"), "f=xy"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	is(t, "no directory", m.WriteFile("/d/f", nil), fs.ErrNotExist)
	_, err := m.ReadFile("/g")
	is(t, "no file", err, fs.ErrNotExist)
	f := open(t, m.Process(), "/f", os.O_RDWR)
	_, err = f.WriteAt(bytes.Repeat([]byte("z"), 4096), 4096)
	is(t, "a process on the full disk", err, syscall.ENOSPC)
}
