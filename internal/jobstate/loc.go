package jobstate

import "hash/crc32"

// Loc is where bytes lie: in which file, where, how many, and their CRC-32C.
// The zero Loc means none. What a file number means is the broker's business.
type Loc struct {
	File, Off, Len, Sum uint32
}

// Zero reports whether l names no bytes.
func (l Loc) Zero() bool { return l == Loc{} }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Checksum is the sum that a Loc carries.
func Checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// Use says how much of a file is still needed.
type Use struct {
	Blobs int   // how many payloads, results and texts
	Bytes int64 // their bytes
}

// uses counts, by file, what live jobs refer to.
type uses struct {
	files map[uint32]*Use
	last  *Use // of lastFile: most changes concern the file of the one before
	file  uint32
	freed func(file uint32) // told when a file's last blob is gone; may be nil
}

func (u *uses) of(file uint32) *Use {
	if u.last != nil && u.file == file {
		return u.last
	}
	f := u.files[file]
	if f == nil {
		f = &Use{}
		u.files[file] = f
	}
	u.last, u.file = f, file
	return f
}

func (u *uses) add(l Loc) {
	if l.Zero() {
		return
	}
	f := u.of(l.File)
	f.Blobs++
	f.Bytes += int64(l.Len)
}

func (u *uses) drop(l Loc) {
	if l.Zero() {
		return
	}
	f := u.of(l.File)
	f.Blobs--
	f.Bytes -= int64(l.Len)
	if f.Blobs == 0 {
		delete(u.files, l.File)
		u.last = nil
		if u.freed != nil {
			u.freed(l.File)
		}
	}
}
