package broker

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	mrand "math/rand/v2"
	"strconv"
	"sync"
	"time"
)

// ID names a job within its queue: a UUID of version 7 (RFC 9562, section 5.7)
// made by the client, so that a repeated enqueue is recognised. The zero ID
// names no job.
type ID [16]byte

// ids makes UUIDv7 values that rise within one process.
var ids struct {
	sync.Mutex
	src  *mrand.ChaCha8
	last uint64 // milliseconds<<12 | fraction of the last id
}

// NewID returns a new id. Ids made by one process rise; ids of different
// processes are ordered by their millisecond. Safe for concurrent use.
func NewID() ID {
	now := time.Now()
	// 12 bits below the millisecond, as RFC 9562 section 6.2 method 3 allows.
	t := uint64(now.UnixMilli())<<12 | uint64(now.Nanosecond()%1e6)*4096/1e6
	ids.Lock()
	defer ids.Unlock()
	if ids.src == nil {
		var seed [32]byte
		if _, err := rand.Read(seed[:]); err != nil {
			panic("broker: no random numbers: " + err.Error()) // crypto/rand never fails on supported systems
		}
		ids.src = mrand.NewChaCha8(seed)
	}
	if t <= ids.last {
		t = ids.last + 1
	}
	ids.last = t
	var id ID
	ms := t >> 12
	for i := range 6 {
		id[i] = byte(ms >> (40 - 8*i))
	}
	id[6], id[7] = 0x70|byte(t>>8)&0x0f, byte(t)
	r := ids.src.Uint64()
	for i := range 8 {
		id[8+i] = byte(r >> (8 * i))
	}
	id[8] = id[8]&0x3f | 0x80
	return id
}

// MarkMask are the bits of a mark.
const MarkMask = 1<<24 - 1

// Mark is the end of id, which NewJob.MakeMarkedID gave it.
func (id ID) Mark() uint32 { return uint32(id[13])<<16 | uint32(id[14])<<8 | uint32(id[15]) }

// IsZero reports whether id names no job.
func (id ID) IsZero() bool { return id == ID{} }

// String returns the id in the usual form of a UUID, 36 characters.
func (id ID) String() string { return string(id.append(make([]byte, 0, 36))) }

func (id ID) append(b []byte) []byte {
	for i, n := range [...]int{4, 2, 2, 2, 6} {
		if i > 0 {
			b = append(b, '-')
		}
		b = hex.AppendEncode(b, id[:n])
		id = ID(append(id[n:], make([]byte, n)...))
	}
	return b
}

// MarshalText implements encoding.TextMarshaler.
func (id ID) MarshalText() ([]byte, error) { return id.append(nil), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (id *ID) UnmarshalText(b []byte) (err error) { *id, err = ParseID(string(b)); return err }

var errID = errors.New("not an id (a UUID of 36 characters, as in 01890a5d-ac96-774b-bcce-b302099a8057)")

// ParseID reads the form that String writes, in either case of letters.
func ParseID(s string) (ID, error) {
	var id ID
	bad := func() (ID, error) { return ID{}, fmt.Errorf("%.64q: %w", s, errID) }
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return bad()
	}
	compact := s[:8] + s[9:13] + s[14:18] + s[19:23] + s[24:]
	if _, err := hex.Decode(id[:], []byte(compact)); err != nil {
		return bad()
	}
	return id, nil
}

// Token is a lease's fencing token: for one job it only grows, through any
// crash or failover, and stays below 2^53. A settlement with a smaller token
// than the job's last is refused. The zero Token is never given out.
type Token uint64

// String returns the token in decimal.
func (t Token) String() string { return strconv.FormatUint(uint64(t), 10) }

// ParseToken reads what String writes.
func ParseToken(s string) (Token, error) {
	n, err := strconv.ParseUint(s, 10, 53)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("%.64q: not a token (a decimal number, as the lease shows it)", s)
	}
	return Token(n), nil
}

// MarshalText implements encoding.TextMarshaler: tokens cross JSON as strings.
func (t Token) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (t *Token) UnmarshalText(b []byte) (err error) { *t, err = ParseToken(string(b)); return err }

// Ref names one job: a job is named by queue and id.
type Ref struct {
	Queue string `json:"queue"`
	ID    ID     `json:"id"`
}

// Call carries the call id of a mutating call: the same over its retries, so
// that a broker whose reply can be lost recognises the repeat. A broker with
// Caps.Retry 0 cannot lose a reply and ignores it. The zero ID is none: such a call
// is never recognised. An id is for one call alone, whatever it does.
type Call struct {
	ID ID
}

// NewCall returns a fresh call id.
func NewCall() Call { return Call{ID: NewID()} }
