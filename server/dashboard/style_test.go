package dashboard

import (
	"fmt"
	"math"
	"regexp"
	"strings"
	"testing"
)

// coloursOf reads the custom properties of the rule that begins with a selector.
func coloursOf(t *testing.T, css, selector string) map[string]string {
	t.Helper()
	_, after, ok := strings.Cut(css, selector+" {")
	if !ok {
		t.Fatalf("the stylesheet has no rule for %s", selector)
	}
	rule, _, _ := strings.Cut(after, "}")
	found := map[string]string{}
	for _, m := range regexp.MustCompile(`--([a-z-]+): (#[0-9a-f]+);`).FindAllStringSubmatch(rule, -1) {
		found[m[1]] = m[2]
	}
	return found
}

// luminance is that of WCAG 2, section 1.4.3.
func luminance(t *testing.T, colour string) float64 {
	t.Helper()
	var c [3]int
	format := "#%02x%02x%02x"
	if len(colour) == 4 {
		format = "#%1x%1x%1x"
	}
	if _, err := fmt.Sscanf(colour, format, &c[0], &c[1], &c[2]); err != nil {
		t.Fatalf("%q: %v", colour, err)
	}
	sum := 0.0
	for i, part := range []float64{.2126, .7152, .0722} {
		v := float64(c[i]) / 255
		if len(colour) == 4 {
			v = float64(c[i]) / 15
		}
		if v <= .04045 {
			v /= 12.92
		} else {
			v = math.Pow((v+.055)/1.055, 2.4)
		}
		sum += part * v
	}
	return sum
}

// TestColoursCanBeRead: text has the contrast of WCAG's level AA on what it
// stands on, and the two ways into the dark are one.
func TestColoursCanBeRead(t *testing.T) {
	b, err := assets.ReadFile("assets/style.css")
	if err != nil {
		t.Fatal(err)
	}
	css := string(b)
	light, dark := coloursOf(t, css, ":root"), coloursOf(t, css, `:root[data-theme="dark"]`)
	chosen := coloursOf(t, css, `:root:not([data-theme="light"])`)
	for name := range dark {
		if dark[name] != chosen[name] {
			t.Errorf("--%s is %s or %s in the dark", name, dark[name], chosen[name])
		}
	}
	for theme, colours := range map[string]map[string]string{"light": light, "dark": dark} {
		for name, value := range light {
			if colours[name] == "" {
				colours[name] = value
			}
		}
		pairs := [][2]string{{"on-accent", "accent"}, {"bad", "bad-bg"}, {"warn", "warn-bg"}, {"card", "bad"}}
		for _, text := range []string{"text", "mute", "accent", "bad", "good", "scheduled", "ready", "leased", "done", "dead", "cancelled"} {
			pairs = append(pairs, [2]string{text, "bg"}, [2]string{text, "card"}, [2]string{text, "soft"})
		}
		for _, p := range pairs {
			a, b := luminance(t, colours[p[0]]), luminance(t, colours[p[1]])
			if ratio := (max(a, b) + .05) / (min(a, b) + .05); ratio < 4.5 {
				t.Errorf("%s: %s on %s has a contrast of %.2f", theme, p[0], p[1], ratio)
			}
		}
	}
}
