package busiest

import (
	"cmp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// names write the keys of each By.
func names() map[By]func(key) string {
	return map[By]func(key) string{Namespace: whole, Source: sourceName, Object: objectName, Reason: reasonName, Policy: whole}
}

// whole is the name of a namespace or a rule.
func whole(k key) string { return cmp.Or(plain(k[0]), `""`) }

// sourceName is component/host, or the component alone.
func sourceName(k key) string {
	if k[1] == "" {
		return part(k[0])
	}
	return part(k[0]) + "/" + part(k[1])
}

// objectName is the kind, a space and namespace/name, or the name alone.
func objectName(k key) string {
	if k[1] == "" {
		return part(k[0]) + " " + part(k[2])
	}
	return part(k[0]) + " " + part(k[1]) + "/" + part(k[2])
}

// reasonName is the type, a space and the reason.
func reasonName(k key) string { return part(k[0]) + " " + part(k[1]) }

// part is s as a part of a name: quoted where it is empty or contains a separator, so that no two keys share a name.
func part(s string) string {
	if s == "" || strings.ContainsAny(s, " /") {
		return strconv.Quote(s)
	}
	return plain(s)
}

// plain is s, quoted where a terminal could not just print it, or where it looks quoted already.
func plain(s string) string {
	odd := func(r rune) bool { return !strconv.IsPrint(r) }
	if strings.HasPrefix(s, `"`) || strings.ContainsFunc(s, odd) || !utf8.ValidString(s) {
		return strconv.Quote(s)
	}
	return s
}
