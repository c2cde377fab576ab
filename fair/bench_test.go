package fair

import (
	"strconv"
	"testing"
)

// benchmarkAddNext adds an item to one of 8 keys and takes the next one, while
// each has some that wait.
func benchmarkAddNext(b *testing.B, add func(string, int), next func() (int, bool)) {
	var keys [8]string
	for i := range keys {
		keys[i] = "tenant-" + strconv.Itoa(i)
		for range 16 {
			add(keys[i], i)
		}
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		add(keys[i&7], i)
		next()
		i++
	}
}

func BenchmarkDRRAddNext(b *testing.B) {
	d, err := NewDRR[string, int](1)
	if err != nil {
		b.Fatal(err)
	}
	benchmarkAddNext(b, d.Add, d.Next)
}

func BenchmarkVirtualAddNext(b *testing.B) {
	v := NewVirtual[string, int]()
	benchmarkAddNext(b, v.Add, v.Next)
}

// BenchmarkDRRAddNextAlone has one key at a time come and go.
func BenchmarkDRRAddNextAlone(b *testing.B) {
	d, err := NewDRR[string, int](1)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		d.Add("tenant", 1)
		d.Next()
	}
}

// BenchmarkVirtualAddNextAlone has one key at a time come and go.
func BenchmarkVirtualAddNextAlone(b *testing.B) {
	v := NewVirtual[string, int]()
	b.ReportAllocs()
	for b.Loop() {
		v.Add("tenant", 1)
		v.Next()
	}
}
