package journal

import (
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/spoolq/spool/internal/vfs"
)

// Current is what CURRENT says: the commit point of the store. Its line is
//
//	spool-journal <level> generation <n> checkpoint <n> first <n> store <hex> payload <n,n|-> crc32c <hex>
//
// The first word, the level and the checksum over all before " crc32c" hold
// for every level.
type Current struct {
	Level      uint16 // of the format
	Generation uint64 // one more with each Flip
	Checkpoint uint64 // n.idx holds the state at the start of segment n+1; 0 is none
	First      uint64 // from this segment on every segment exists; at most Checkpoint+1
	StoreID    [16]byte
	Payload    []uint64 // numbers of the payload files in use, ascending
}

const (
	currentName   = "CURRENT"
	currentTmp    = "CURRENT.tmp"
	currentMagic  = "spool-journal"
	currentMax    = 64 << 10 // bytes of the line
	currentFields = 14
)

func (c Current) line() []byte {
	payload := "-"
	if len(c.Payload) > 0 {
		var b strings.Builder
		for i, n := range c.Payload {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(strconv.FormatUint(n, 10))
		}
		payload = b.String()
	}
	s := fmt.Sprintf("%s %d generation %d checkpoint %d first %d store %x payload %s",
		currentMagic, c.Level, c.Generation, c.Checkpoint, c.First, c.StoreID, payload)
	return fmt.Appendf(nil, "%s crc32c %08x\n", s, crc32.Checksum([]byte(s), castagnoli))
}

// parseCurrent reads the line of CURRENT. Its errors wrap ErrNotStore
// and ErrCorrupt for a garbled line and ErrUnsupported for a newer level.
func parseCurrent(b []byte) (Current, error) {
	garbled := func(what string) (Current, error) {
		return Current{}, lostCurrent("garbled: " + what)
	}
	s, ok := strings.CutSuffix(string(b), "\n")
	if !ok {
		return garbled("no end of line")
	}
	i := strings.LastIndex(s, " crc32c ")
	if i < 0 || !strings.HasPrefix(s[:i], currentMagic+" ") {
		return garbled("not a line of ours")
	}
	if s[i+len(" crc32c "):] != fmt.Sprintf("%08x", crc32.Checksum([]byte(s[:i]), castagnoli)) {
		return garbled("checksum")
	}
	f := strings.Split(s[:i], " ")
	level, err := strconv.ParseUint(f[1], 10, 16)
	if err != nil || level == 0 {
		return garbled("level")
	}
	if level > FormatLevel {
		return Current{}, fmt.Errorf("%w: the store has level %d, this program knows up to %d", ErrUnsupported, level, FormatLevel)
	}
	c := Current{Level: uint16(level)}
	if err := c.parseFields(f[2:]); err != nil {
		return garbled(err.Error())
	}
	return c, nil
}

func (c *Current) parseFields(f []string) error {
	if len(f) != currentFields-4 {
		return errors.New("number of fields")
	}
	nums := []struct {
		name string
		to   *uint64
	}{{"generation", &c.Generation}, {"checkpoint", &c.Checkpoint}, {"first", &c.First}}
	for i, n := range nums {
		v, err := strconv.ParseUint(f[2*i+1], 10, 64)
		if f[2*i] != n.name || err != nil {
			return errors.New(n.name)
		}
		*n.to = v
	}
	id, err := hex.DecodeString(f[7])
	if f[6] != "store" || err != nil || len(id) != len(c.StoreID) {
		return errors.New("store")
	}
	copy(c.StoreID[:], id)
	if f[8] != "payload" {
		return errors.New("payload")
	}
	if f[9] != "-" {
		for _, s := range strings.Split(f[9], ",") {
			n, err := strconv.ParseUint(s, 10, 31)
			if err != nil || n == 0 || (len(c.Payload) > 0 && n <= c.Payload[len(c.Payload)-1]) {
				return errors.New("payload")
			}
			c.Payload = append(c.Payload, n)
		}
	}
	if c.Generation == 0 || c.First == 0 || c.First > c.Checkpoint+1 || c.Checkpoint >= maxSegment {
		return errors.New("numbers contradict each other")
	}
	return nil
}

// readCurrent reads and checks CURRENT. A missing one is fs.ErrNotExist.
func readCurrent(sys vfs.System, dir string) (Current, error) {
	f, err := sys.Open(join(dir, currentName), os.O_RDONLY)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return Current{}, err
		}
		return Current{}, fmt.Errorf("read CURRENT: %w", err)
	}
	b, err := readAll(f, currentMax)
	if err = joinClose(err, f); err != nil {
		return Current{}, fmt.Errorf("read CURRENT: %w", err)
	}
	return parseCurrent(b)
}

// writeCurrent replaces CURRENT; it is durable when nil is returned.
func (l *Log) writeCurrent(c Current) error {
	sys, dir := l.sys, l.dir
	line := c.line()
	if len(line) > currentMax {
		return fmt.Errorf("write CURRENT: %w: %d payload files", ErrTooLarge, len(c.Payload))
	}
	err := writeFile(sys, join(dir, currentTmp), line, os.O_TRUNC)
	if err == nil {
		err = sys.Rename(join(dir, currentTmp), join(dir, currentName))
	}
	if err == nil {
		err = l.syncDir()
	}
	if err != nil {
		return fmt.Errorf("write CURRENT: %w", diskFull(err))
	}
	return nil
}
