package redisbroker

import (
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
