package spool

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"sync"
	"unicode/utf8"
)

// interfaceTypes remembers, by type, what hasInterface found. It is a cache of
// a pure function.
var interfaceTypes sync.Map // reflect.Type to bool

// hasInterface reports whether values of t can hold an interface, so that JSON
// cannot know what type to decode into.
func hasInterface(t reflect.Type) bool {
	if t == nil {
		return false
	}
	if known, ok := interfaceTypes.Load(t); ok {
		return known.(bool)
	}
	found := searchInterface(t, map[reflect.Type]bool{})
	interfaceTypes.Store(t, found)
	return found
}

func searchInterface(t reflect.Type, seen map[reflect.Type]bool) bool {
	if seen[t] || marshals(t) {
		return false
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Interface:
		return true
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return searchInterface(t.Elem(), seen)
	case reflect.Struct:
		for i := range t.NumField() {
			if f := t.Field(i); visible(f) && searchInterface(f.Type, seen) {
				return true
			}
		}
	}
	return false
}

var (
	jsonMarshaler = reflect.TypeFor[json.Marshaler]()
	textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()
)

// marshals reports whether t writes its own JSON, which is then its business.
func marshals(t reflect.Type) bool {
	if t.Kind() == reflect.Interface {
		return false
	}
	p := reflect.PointerTo(t)
	return t.Implements(jsonMarshaler) || t.Implements(textMarshaler) ||
		p.Implements(jsonMarshaler) || p.Implements(textMarshaler)
}

func visible(f reflect.StructField) bool {
	return (f.IsExported() || f.Anonymous) && f.Tag.Get("json") != "-"
}

// checkLossless walks a value that encoding/json accepted (so it has no cycles)
// and returns an error that names the first place which would come back
// changed.
func checkLossless(v reflect.Value) error { return walk(v, "value", false) }

// walk checks v, which stands at path; loose says that it stands in an
// interface and decodes without a type.
func walk(v reflect.Value, path string, loose bool) error {
	if !v.IsValid() || v.Kind() != reflect.Interface && marshals(v.Type()) {
		return nil
	}
	switch v.Kind() {
	case reflect.String:
		if !utf8.ValidString(v.String()) {
			return fmt.Errorf("%s is not valid UTF-8 (%s): use []byte for binary data", path, strconv.QuoteToASCII(head(v.String(), 32)))
		}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		if n := v.Int(); loose && (n > 1<<53 || n < -1<<53) {
			return fmt.Errorf("%s is %d, which would lose digits in an interface: give it a type", path, n)
		}
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		if n := v.Uint(); loose && n > 1<<53 {
			return fmt.Errorf("%s is %d, which would lose digits in an interface: give it a type", path, n)
		}
	case reflect.Interface:
		return walk(v.Elem(), path, true)
	case reflect.Pointer:
		return walk(v.Elem(), path, loose)
	case reflect.Slice, reflect.Array:
		return walkList(v, path, loose)
	case reflect.Map:
		return walkMap(v, path, loose)
	case reflect.Struct:
		return walkStruct(v, path, loose)
	}
	return nil
}

func walkList(v reflect.Value, path string, loose bool) error {
	if v.Type().Elem().Kind() == reflect.Uint8 {
		return nil // base64, or small numbers
	}
	for i := range v.Len() {
		if err := walk(v.Index(i), fmt.Sprintf("%s[%d]", path, i), loose); err != nil {
			return err
		}
	}
	return nil
}

func walkMap(v reflect.Value, path string, loose bool) error {
	for it := v.MapRange(); it.Next(); {
		if err := walk(it.Key(), "a key of "+path, false); err != nil {
			return err
		}
		if err := walk(it.Value(), fmt.Sprintf("%s[%.32v]", path, it.Key()), loose); err != nil {
			return err
		}
	}
	return nil
}

func walkStruct(v reflect.Value, path string, loose bool) error {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if !visible(f) {
			continue
		}
		if err := walk(v.Field(i), path+"."+f.Name, loose); err != nil {
			return err
		}
	}
	return nil
}

func head(s string, n int) string { return s[:min(len(s), n)] }
