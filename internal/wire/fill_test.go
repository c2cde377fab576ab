package wire

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"time"

	"github.com/spoolq/spool/broker"
)

// filler sets every exported field of a value to something that is not zero, so
// that a field that a shape forgets is missed.
type filler struct {
	*rand.Rand
	odd bool // strings that are not UTF-8
}

// texts that have to cross as they are. The last is not UTF-8.
var texts = []string{"acme", "a b\t\"c\"\\ <&>\u2028é 漢 \x00\x1f\x7f", "\xff\xfe tail"}

// names are the fields whose text is always a name.
var names = map[string]bool{"Queue": true, "Task": true, "Reason": true, "Limit": true}

func (f *filler) text() string {
	if f.odd {
		return texts[2]
	}
	return texts[f.IntN(2)] + fmt.Sprint(f.IntN(100))
}

// bodies are payloads of every sort.
var bodies = []string{
	`{"to": "ada",  "n": 12345678901234567890, "x":"<&>"}`, `null`, `"text"`, ` {"a":1}`, "{\"a\":1}\n", `{"a":1,"a":2}`, "\xff\x00", "plain text",
	`[1.0, 1e5, -0]`, `{"z":1,"a":2}`, `"\u00e9\/"`,
}

func (f *filler) fill(v reflect.Value) {
	switch v.Interface().(type) {
	case time.Time:
		v.Set(reflect.ValueOf(time.Unix(1_700_000_000+f.Int64N(1e6), f.Int64N(1e9)).UTC()))
		return
	case time.Duration:
		v.SetInt(1 + f.Int64N(1e15))
		return
	case broker.ID:
		v.Set(reflect.ValueOf(broker.NewID()))
		return
	case broker.State:
		v.Set(reflect.ValueOf(broker.States[f.IntN(len(broker.States))]))
		return
	case broker.Token:
		v.SetUint(1 + f.Uint64N(1<<53-1))
		return
	case broker.KeyHold:
		v.SetUint(1 + f.Uint64N(2))
		return
	case broker.KeyRepeat:
		v.SetUint(1 + f.Uint64N(2))
		return
	case broker.SettleKind:
		v.SetUint(1 + f.Uint64N(6))
		return
	case broker.CommandKind:
		v.SetUint(1)
		return
	case broker.BeatStatus:
		v.SetUint(1 + f.Uint64N(3))
		return
	case broker.SettingKind:
		v.SetString("limit")
		return
	case []byte:
		v.SetBytes([]byte(bodies[f.IntN(len(bodies))]))
		return
	}
	f.kind(v)
}

func (f *filler) kind(v reflect.Value) {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(1 + f.Int64N(1000))
	case reflect.Uint32, reflect.Uint64:
		v.SetUint(1 + f.Uint64N(1000))
	case reflect.String:
		v.SetString(f.text())
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		f.fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			f.fill(v.Index(i))
		}
	case reflect.Map:
		v.Set(reflect.ValueOf(map[string]string{f.text(): f.text(), "trace": "00-ab"}))
	case reflect.Struct:
		for i := range v.NumField() {
			switch field := v.Type().Field(i); {
			case !field.IsExported():
			case names[field.Name] && field.Type.Kind() == reflect.String:
				v.Field(i).SetString("a.name-1")
			case field.Type == reflect.TypeFor[*broker.Setting](): // Declared: one below is enough
				below := reflect.New(reflect.TypeFor[broker.Setting]())
				below.Elem().FieldByName("Kind").SetString("weight")
				below.Elem().FieldByName("Weight").SetInt(3)
				v.Field(i).Set(below)
			default:
				f.fill(v.Field(i))
			}
		}
	default:
		panic("no value for " + v.Type().String())
	}
}

// filled is a value with nothing zero in it.
func filled[T any](f *filler) (v T) {
	f.fill(reflect.ValueOf(&v).Elem())
	return v
}
