// Package journal is the log on disk: framed, checksummed, segmented, shared
// by several processes. It knows bytes, files and the locks of one directory;
// nothing of jobs. Only broker/filebroker and the tools above it import it.
//
// # Files
//
//	CURRENT          one line: level, generation, checkpoint, first segment, store id
//	LOCK, LOCK.next  the append lock and its turnstile
//	COMPACT, PREP    held by who builds a checkpoint; by who prepares segments
//	CONTROL          4 KiB, mapped by every handle: hints only
//	POISON           why nobody may write any more
//	RESERVE          room for compactions on a full disk, as much as checkpoints need
//	000012.idx       checkpoint: the state at the start of segment 13
//	000013.log       a segment; the ones after the active one are zero-filled
//	000004.pay       a payload file: payloads moved out of sparse segments
//	torn-000013-4096 bytes that were cut from segment 13 at offset 4096
//	*.new, *.tmp     unfinished; overwritten or removed
//
// # Frames
//
// A frame is the atomic unit of the log: a header of 80 bytes, a body, zeros
// up to a multiple of 8. All numbers are little-endian. Everything in this
// picture is part of the format.
//
//	 0  4  magic "spj1"
//	 4  1  version, 1
//	 5  1  kind: 1 data, 2 head of a segment, 3 end of a segment
//	 6  2  flags: bit 0 stateful
//	 8  4  length of the body, at most 16 MiB
//	12  4  number of records in the body
//	16  8  segment that the frame belongs to
//	24  8  offset in that segment
//	32  8  sequence: 1 for the first frame of the store, then one more each
//	40  8  SyncedUpTo, segment
//	48  8  SyncedUpTo, offset: what was known durable before this was written
//	56  8  wall clock of the writer, nanoseconds since 1970
//	64  4  epoch
//	68  4  header checksum of the frame before
//	72  4  checksum of the body
//	76  4  checksum of the 76 bytes before it
//	80     body
//
// A checksum is the CRC-32C of the store's 16 random bytes followed by what it
// covers. Where the header checksum stands and what it covers holds for every
// version. A header whose checksum is right and whose version, kind or length
// is not acceptable refuses the store: only a failed checksum can be a torn
// tail. Eighty zeros are no frame.
//
// The body of a head: store id (16 bytes), number of the segment before (8),
// the offset at which that one ends (8), format level (4), zeros (4). The body
// of an end is the counters that the caller gives, empty when it knows none.
// Heads and ends carry on the epoch and the stateful flag of the frame before;
// stateful means that the next frame may be written only by who knows the state.
//
// A segment begins with a head. A sealed one finishes with an end, which is
// durable before the next segment's first byte is written; so bytes in a
// segment prove that all before it was durable. After a recovery from poison
// the log goes on in a new segment, whose head then says where the one before
// ends.
//
// # Checkpoint and payload files
//
//	checkpoint:   header, blocks, footer       payload file:  header, bytes, footer
//	header (64):  magic 8, version 4, zeros 4, number 8, store id 16, zeros 20, checksum 4
//	block:        length 4 (at most 256 KiB), checksum 4, bytes
//	footer (64):  magic 8, number 8, content length 8, content checksum 4, zeros 4,
//	              end of the segment: offset 8, sequence 8, header checksum 4; flags 2, zeros 2, epoch 4, checksum 4
//
// The bytes of a payload file are payloads, one right after the other, and then,
// where the first of the last fields is not zero, from that offset on the table
// of where they lay before. It has a part for each file: its id 4 (the number;
// with the top bit set that of a payload file), the offset of the first payload
// here 4, how many 4, length of what follows 4; for each payload, as varints,
// the gap between the one before and it in the old file, and its length. Behind
// the parts stands their checksum 4. How large a segment is prepared is no part
// of the format.
package journal
