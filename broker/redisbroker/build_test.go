package redisbroker

import (
	"regexp"
	"strings"
	"testing"
)

func TestConstantsAreWrittenOutAndTextsLeftAlone(t *testing.T) {
	parts := map[string]string{
		"a":    "local ONE, NAME = 1, 'x'\nlocal A = {}\nfunction A.f() return ONE, NAME, 'ONE', A.ONE end -- ONE\n",
		"last": "-- comment\nlocal B = ONE\nreturn B",
	}
	got := join([]string{"a", "last"}, func(part string) string { return parts[part] })
	for _, want := range []string{"local A\n", "A = {}\n", "function A.f() return 1, 'x', 'ONE', A.ONE end\n", "local B = 1\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("the script has no %q:\n%s", want, got)
		}
	}
	if strings.Contains(got, "--") {
		t.Errorf("comments are left:\n%s", got)
	}
}

func TestTwoPartsThatDefineOneNameAreNoScript(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("they are")
		}
	}()
	join([]string{"a", "b", "last"}, func(string) string { return "local same = {}\n" })
}

// Lua compares strings by the locale that the server was started in, in which bytes
// may have another order.
func TestNoScriptComparesPackedNumbersAsWords(t *testing.T) {
	words := regexp.MustCompile(`\b(sq|m|bm|m0|m1)\b(\)|, 8\)|, 1, 6\))? ?[<>] ?|[<>] ?([a-z]+\.)*(sq|m|bm|m0|m1)\b`)
	files, err := lua.ReadDir("lua")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		text, err := lua.ReadFile("lua/" + f.Name())
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			code, _, _ := strings.Cut(line, "--")
			if at := words.FindString(code); at != "" {
				t.Errorf("%s compares by %q: %s", f.Name(), at, strings.TrimSpace(line))
			}
		}
	}
}
