package redisbroker

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// A script is compiled once, but its text runs from the top with every call:
// all that it defines, it defines anew. So its parts are joined with care:
//
//   - What is a constant at the top of a part (a name for a number or a text) is
//     written out where it is used.
//   - The other names at the top of a part belong to the whole script. They are
//     variables of one function around the parts, since a function that is made
//     finds a variable of its own surroundings only by going through all that are
//     in use there, one of the surroundings' surroundings at once.
//   - Parts that many calls do not need are defined when their table is first
//     used; their other names are their own.

// lazy are the parts that are defined when they are first used, and the table that
// each defines.
var lazy = map[string]string{
	"lane": "Lane", "life": "Life", "add": "Add", "turn": "Turn", "stand": "Stand", "gate": "Gate", "key": "Key", "room": "Room", "walk": "Walk", "pick": "Pick",
	"alive": "Worker", "repair": "Repair", "plain": "Plain", "moved": "Move", "govern": "Govern",
}

const lazily = `local function lazily(define, get)
return setmetatable({}, { __index = function(_, key)
define()
return get()[key]
end })
end
`

var (
	constants = regexp.MustCompile(`^local ([A-Za-z_0-9, ]+) = ((?:-?[0-9]+|'(?:[^'\\]|\\.)*')(?:, *(?:-?[0-9]+|'(?:[^'\\]|\\.)*'))*)(?: *--.*)?$`)
	variables = regexp.MustCompile(`^local (?:function ([A-Za-z_0-9]+)|([A-Za-z_0-9, ]+?)(?: =.*)?$)`)
	literal   = regexp.MustCompile(`-?[0-9]+|'(?:[^'\\]|\\.)*'`)
	word      = regexp.MustCompile(`[.:]?[A-Za-z_][A-Za-z_0-9]*|'(?:[^'\\]|\\.)*'`)
)

// builder joins the parts of a script.
type builder struct {
	known map[string]string // constants
	names []string          // variables
}

// part adds a part of a script, without comments and indentation. Of its names
// those that shared chooses belong to the whole script; the others stay there.
func (b *builder) part(source string, shared func(name string) bool) string {
	var out strings.Builder
	for line := range strings.Lines(source) {
		line = strings.TrimRight(line, "\n")
		if m := constants.FindStringSubmatch(line); m != nil && b.constant(m[1], m[2]) {
			continue
		}
		if m := variables.FindStringSubmatch(line); m != nil && shared(split(m[1] + m[2])[0]) {
			b.name(split(m[1] + m[2]))
			line = strings.TrimPrefix(line, "local ")
			if !strings.Contains(line, "=") && m[1] == "" {
				continue
			}
		}
		line = strings.TrimSpace(line)
		if at := strings.Index(line, " -- "); at >= 0 {
			line = line[:at]
		}
		if line == "" || strings.HasPrefix(line, "--") {
			continue
		}
		out.WriteString(word.ReplaceAllStringFunc(line, func(w string) string {
			if value, ok := b.known[w]; ok {
				return value
			}
			return w
		}))
		out.WriteByte('\n')
	}
	return out.String()
}

func none(string) bool { return false }

func split(list string) (all []string) {
	for _, name := range strings.Split(list, ",") {
		all = append(all, strings.TrimSpace(name))
	}
	return all
}

// name learns names of variables.
func (b *builder) name(names []string) {
	for _, n := range names {
		if slices.Contains(b.names, n) {
			panic("redisbroker: two parts of a script define " + n) // every script is built at the start
		}
		b.names = append(b.names, n)
	}
}

// constant learns names of constants.
func (b *builder) constant(names, values string) bool {
	n, v := split(names), literal.FindAllString(values, -1)
	if len(n) != len(v) {
		return false
	}
	for i := range n {
		b.known[n[i]] = v[i]
	}
	return true
}

// join makes a script of its parts, the last of which is what it does.
func join(parts []string, source func(part string) string) string {
	b := builder{known: map[string]string{}}
	var define strings.Builder
	define.WriteString(lazily)
	for _, p := range parts[:len(parts)-1] {
		table := lazy[p]
		text := b.part(source(p), func(name string) bool { return table == "" || name == table })
		if table != "" {
			fmt.Fprintf(&define, "%s = lazily(function()\n%send, function() return %s end)\n", table, text, table)
		} else {
			define.WriteString(text)
		}
	}
	name := parts[len(parts)-1]
	last := b.part(source(name), none)
	return b.fast(name, source) + "local " + strings.Join(b.names, ", ") + "\nlocal function define()\n" + define.String() + "end\n" +
		"define()\nlocal function main()\n" + last + "end\nreturn main()\n"
}

// fast is what a script tries before it defines its parts, "" for most. It sets
// early, the answers: the script ends with them when no more is to be done.
func (b *builder) fast(name string, source func(part string) string) string {
	if name != "enqueue" {
		return ""
	}
	text := b.part(source("fast"), none)
	head, rest, _ := strings.Cut(text, "\n") // short names, which the clock needs, too
	return "local early\ndo\n" + head + "\n" + b.part(source("time"), none) + rest + "local more\nearly, more = fast()\nif early and not more then return #early end\nend\n"
}
