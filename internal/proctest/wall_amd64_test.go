//go:build linux

package proctest

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

func init() { moveWall = moveWallHere }

// moveWallHere puts code of its own before the one function by which this
// process reads its clocks, in the page that the kernel lent it for that. From
// then on the wall clock, and no other, is off by so much.
func moveWallHere(off time.Duration) error {
	at, err := clockFunction()
	if err != nil {
		return err
	}
	code := []byte{
		0xb8, 228, 0, 0, 0, // mov $SYS_clock_gettime, %eax
		0x0f, 0x05, // syscall
		0x85, 0xff, // test %edi, %edi: CLOCK_REALTIME is 0
		0x75, 7, // jnz over the next
		0x48, 0x81, 0x06, // addq $off, (%rsi): the seconds
	}
	code = binary.LittleEndian.AppendUint32(code, uint32(int32(off/time.Second)))
	code = append(code, 0xc3) // ret
	mem, err := os.OpenFile("/proc/self/mem", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	_, err = mem.WriteAt(code, int64(at))
	return errors.Join(err, mem.Close())
}

// clockFunction is where the kernel put it.
func clockFunction() (uint64, error) {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(maps)) {
		var from, to uint64
		if !strings.HasSuffix(line, "[vdso]\n") {
			continue
		}
		if _, err := fmt.Sscanf(line, "%x-%x", &from, &to); err != nil {
			return 0, err
		}
		mem, err := os.Open("/proc/self/mem")
		if err != nil {
			return 0, err
		}
		image := make([]byte, to-from)
		_, err = mem.ReadAt(image, int64(from))
		if err = errors.Join(err, mem.Close()); err != nil {
			return 0, err
		}
		file, err := elf.NewFile(bytes.NewReader(image))
		if err != nil {
			return 0, err
		}
		symbols, err := file.DynamicSymbols()
		if err != nil {
			return 0, err
		}
		for _, s := range symbols {
			if s.Name == "__vdso_clock_gettime" {
				return from + s.Value, nil
			}
		}
	}
	return 0, errors.New("the kernel lends no function that reads clocks")
}

func TestAProcessHasAWallClockOfItsOwn(t *testing.T) {
	for _, off := range []time.Duration{2 * time.Second, -2 * time.Second, time.Hour, -time.Hour} {
		begun, before := time.Now(), now()
		c := start(t, plan{Role: asClient, Wall: off})
		c.order(order{Do: "wall"})
		e := c.await("answer", 1)[0]
		if is := time.Unix(0, e.Number).Sub(begun) - off; is < 0 || is > time.Since(begun) {
			t.Errorf("off by %v: %v more", off, is)
		}
		if e.At < before || e.At > now() {
			t.Errorf("off by %v: its monotonic clock is off, too: %v is not within %v and %v", off, e.At, before, now())
		}
		c.finish()
	}
}
