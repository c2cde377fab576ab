//go:build linux

package proctest

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

const nobody = 65534

// asNobody runs a process as a user to whom mode bits mean something: to root
// they mean nothing.
func asNobody(t *testing.T) func(*exec.Cmd) {
	t.Helper()
	if os.Geteuid() != 0 {
		return func(*exec.Cmd) {}
	}
	// The test's binary stands where others may not look.
	self, err := os.Executable()
	must(t, err)
	copied := filepath.Join(openDir(t), "test")
	must(t, copyFile(copied, self))
	return func(cmd *exec.Cmd) {
		cmd.Path = copied
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
}

// openDir is a temporary directory that everybody can enter.
func openDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	must(t, os.Chmod(dir, 0o755))
	must(t, os.Chmod(filepath.Dir(dir), 0o755))
	return dir
}

func copyFile(to, from string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// own makes nobody the owner of a file or directory.
func own(t *testing.T, name string) {
	t.Helper()
	if os.Geteuid() == 0 {
		must(t, os.Lchown(name, nobody, nobody))
	}
}

// tree describes every file below dir: mode, size and content. Of CONTROL it
// leaves out the content, which is hints.
func tree(t *testing.T, dir string) (list []string) {
	t.Helper()
	must(t, filepath.Walk(dir, func(name string, info os.FileInfo, err error) error {
		line := strings.TrimPrefix(name, dir) + " " + info.Mode().String()
		if err == nil && info.Mode().IsRegular() && info.Name() != "CONTROL" {
			var text []byte
			text, err = os.ReadFile(name)
			line += " " + string(text)
		}
		if errors.Is(err, fs.ErrPermission) {
			line, err = line+" is closed", nil
		}
		list = append(list, line)
		return err
	}))
	return list
}

// changeModes changes the modes of all directories and files below dir, until
// the test is over.
func changeModes(t *testing.T, dir string, dirs, files os.FileMode) {
	t.Helper()
	change := func(dirs, files os.FileMode) error {
		return filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir():
				return os.Chmod(name, dirs)
			}
			return os.Chmod(name, files)
		})
	}
	must(t, change(dirs, files))
	t.Cleanup(func() { must(t, change(0o700, 0o600)) })
}

// difference lists what is in one tree and not in the other.
func difference(a, b []string) (lines []string) {
	in := func(list []string) func(string) bool {
		return func(line string) bool { return slices.Contains(list, line) }
	}
	return slices.Concat(slices.DeleteFunc(slices.Clone(a), in(b)), slices.DeleteFunc(slices.Clone(b), in(a)))
}

// aStore makes a store of nobody's with one job.
func aStore(t *testing.T, dir string, as func(*exec.Cmd)) {
	t.Helper()
	must(t, os.Mkdir(dir, 0o700))
	own(t, dir)
	c := start(t, plan{Role: asClient, Store: dir}, as)
	for _, o := range []order{{Do: "open"}, {Do: "enqueue"}} {
		if a := c.ask(o); a.Text != "" {
			t.Fatalf("%s: %s", o.Do, a.Text)
		}
	}
	c.finish()
}

func TestADirectoryThatIsUnfitIsRefusedAndLeftAlone(t *testing.T) {
	emptyDir := func(t *testing.T, dir string, _ func(*exec.Cmd)) {
		must(t, os.Mkdir(dir, 0o700))
		own(t, dir)
	}
	then := func(steps ...func(t *testing.T, dir string, as func(*exec.Cmd))) func(*testing.T, string, func(*exec.Cmd)) {
		return func(t *testing.T, dir string, as func(*exec.Cmd)) {
			for _, step := range steps {
				step(t, dir, as)
			}
		}
	}
	mode := func(m os.FileMode) func(*testing.T, string, func(*exec.Cmd)) {
		return func(t *testing.T, dir string, _ func(*exec.Cmd)) {
			must(t, os.Chmod(dir, m))
			t.Cleanup(func() { must(t, os.Chmod(dir, 0o700)) })
		}
	}
	// moved replaces a file of the store by a link to where it is now.
	moved := func(file string) func(*testing.T, string, func(*exec.Cmd)) {
		return func(t *testing.T, dir string, _ func(*exec.Cmd)) {
			to := filepath.Join(filepath.Dir(dir), "moved")
			must(t, os.Rename(filepath.Join(dir, file), to))
			must(t, os.Symlink(to, filepath.Join(dir, file)))
			own(t, filepath.Join(dir, file))
		}
	}
	holding := func(file, text string) func(*testing.T, string, func(*exec.Cmd)) {
		return func(t *testing.T, dir string, _ func(*exec.Cmd)) {
			must(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600))
			own(t, filepath.Join(dir, file))
		}
	}
	for _, c := range []struct {
		name string
		make func(t *testing.T, dir string, as func(*exec.Cmd))
		is   string // the sentinel error
		says string
	}{
		{"an empty directory that cannot be read", then(emptyDir, mode(0)), "permission", ""},
		{"a store that cannot be read", then(aStore, mode(0)), "permission", ""},
		{"an empty directory that cannot be written", then(emptyDir, mode(0o500)), "permission", ""},
		{"a store that cannot be written", then(aStore, func(t *testing.T, dir string, _ func(*exec.Cmd)) {
			changeModes(t, dir, 0o500, 0o400)
		}), "permission", ""},
		{"an empty directory that the group may write", then(emptyDir, mode(0o770)), "permission", "chmod"},
		{"a store that others may write", then(aStore, mode(0o702)), "permission", "chmod"},
		{"a directory of somebody else's", func(t *testing.T, dir string, _ func(*exec.Cmd)) {
			if os.Geteuid() != 0 {
				t.Skip("only root can give a directory away")
			}
			must(t, os.Mkdir(dir, 0o755))
		}, "permission", "belongs to user"},
		{"a directory in one that cannot be written", func(t *testing.T, dir string, _ func(*exec.Cmd)) {
			must(t, os.Chmod(filepath.Dir(dir), 0o555))
			t.Cleanup(func() { must(t, os.Chmod(filepath.Dir(dir), 0o755)) })
		}, "permission", ""},
		{"a directory that holds something else", then(emptyDir, holding("notes.txt", "mine")), "invalid", "notes.txt"},
		{"a directory that holds a log of something else", then(emptyDir, holding("000001.log", "mine")), "invalid", "000001.log"},
		{"a store whose CURRENT is gone", then(aStore, func(t *testing.T, dir string, _ func(*exec.Cmd)) {
			must(t, os.Remove(filepath.Join(dir, "CURRENT")))
		}), "corrupt", "CURRENT"},
		{"a store whose CURRENT says something else", then(aStore, holding("CURRENT", "mine\n")), "corrupt", "CURRENT"},
		{"a link to a store", then(aStore, func(t *testing.T, dir string, _ func(*exec.Cmd)) {
			must(t, os.Rename(dir, dir+".moved"))
			must(t, os.Symlink(dir+".moved", dir))
		}), "", "link"},
		{"a file", func(t *testing.T, dir string, _ func(*exec.Cmd)) {
			must(t, os.WriteFile(dir, []byte("mine"), 0o600))
			own(t, dir)
		}, "", "not a directory"},
		{"a store whose LOCK is a link", then(aStore, moved("LOCK")), "link", "LOCK"},
		{"a store whose LOCK.next is a link", then(aStore, moved("LOCK.next")), "link", "LOCK.next"},
		{"a store whose COMPACT is a link", then(aStore, moved("COMPACT")), "link", "COMPACT"},
		{"a store whose PREP is a link", then(aStore, moved("PREP")), "link", "PREP"},
		{"a store whose CONTROL is a link", then(aStore, moved("CONTROL")), "link", "CONTROL"},
		{"a store whose CURRENT is a link", then(aStore, moved("CURRENT")), "link", "CURRENT"},
		{"a store whose first segment is a link", then(aStore, moved("000001.log")), "link", "000001.log"},
		{"a store whose alive folder is a link", then(aStore, moved("alive")), "", "alive"},
	} {
		t.Run(c.name, func(t *testing.T) {
			as := asNobody(t)
			dir := filepath.Join(openDir(t), "jobs")
			own(t, filepath.Dir(dir))
			c.make(t, dir, as)
			before := tree(t, filepath.Dir(dir))
			p := start(t, plan{Role: asClient, Store: dir}, as)
			a := p.ask(order{Do: "open"})
			t.Log(a.Text)
			if a.Text == "" {
				t.Error("it was opened")
			}
			if c.is != "" && !slices.Contains(a.Is, c.is) || !strings.Contains(a.Text, c.says) || !strings.Contains(a.Text, dir) {
				t.Errorf("error %q is %q; wanted is %q, with %q", a.Text, a.Is, c.is, c.says)
			}
			p.finish()
			if changed := difference(before, tree(t, filepath.Dir(dir))); len(changed) > 0 {
				t.Errorf("changed was %.300q", changed)
			}
		})
	}
}

func TestAStoreThatCouldNotBeWrittenIsWholeAfterwards(t *testing.T) {
	as := asNobody(t)
	dir := filepath.Join(openDir(t), "jobs")
	own(t, filepath.Dir(dir))
	aStore(t, dir, as)
	c := start(t, plan{Role: asClient, Store: dir}, as)
	changeModes(t, dir, 0o500, 0o400)
	if a := c.ask(order{Do: "open"}); !slices.Contains(a.Is, "permission") {
		t.Errorf("open of a store that cannot be written: error %q", a.Text)
	}
	changeModes(t, dir, 0o700, 0o600)
	for _, o := range []order{{Do: "open"}, {Do: "enqueue"}} {
		if a := c.ask(o); a.Text != "" {
			t.Errorf("%s: %s", o.Do, a.Text)
		}
	}
	if a := c.ask(order{Do: "count"}); a.Number != 2 {
		t.Errorf("there are %d jobs", a.Number)
	}
	c.finish()
}

func TestAReadOnlyFileSystemIsRefused(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can mount")
	}
	apart := func(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS} }
	try := exec.Command("true")
	apart(try)
	if err := try.Run(); errors.Is(err, fs.ErrPermission) {
		t.Skipf("this root may not mount: %v", err)
	}
	top := t.TempDir()
	dir := filepath.Join(top, "jobs")
	c := start(t, plan{Role: asClient, Store: dir, Mount: top}, apart)
	for _, o := range []order{{Do: "open"}, {Do: "enqueue"}, {Do: "close"}, {Do: "read-only"}} {
		if a := c.ask(o); a.Text != "" {
			t.Fatalf("%s: %s", o.Do, a.Text)
		}
	}
	for _, name := range []string{dir, filepath.Join(top, "new")} {
		if a := c.ask(order{Do: "open", Store: name}); !slices.Contains(a.Is, "read-only") || !strings.Contains(a.Text, name) {
			t.Errorf("open of %s: error %q is %q", name, a.Text, a.Is)
		} else {
			t.Log(a.Text)
		}
	}
	c.finish()
}
