package simulate

import "slices"

// accept takes in what was parsed of a line, and the write that it says, encoded.
// It fails only where the trace cannot be written.
func (r *reader) accept(line int64, p *parsed, encoded []byte) error {
	r.trace.Input.Entries++
	switch {
	case p.err != nil:
		r.broken(line, p.err)
		return nil //nolint:nilerr // it is counted
	case p.skip != "":
		r.skip(p.skip)
		return nil
	}
	user, err := r.trace.userIndex(p.user)
	if err != nil {
		r.broken(line, wrapped("user", err))
		return nil
	}
	if slices.Contains(r.exempt, r.trace.users[user].Username) {
		r.skip(skipExempt)
		return nil
	}
	return r.trace.add(p, place{user, r.file, line}, encoded)
}

// broken notes a line that cannot be read.
func (r *reader) broken(line int64, err error) {
	in := &r.trace.Input
	in.Broken++
	if len(in.BrokenLines) < shownBroken {
		in.BrokenLines = append(in.BrokenLines, Broken{File: r.name, Line: line, Error: clip(err.Error())})
	}
}

// clip bounds what is said of a line, which may be of any length and hold
// anything.
func clip(s string) string {
	const most = 200
	if len(s) > most {
		s = s[:most] + "..."
	}
	return s
}

func (r *reader) skip(why string) { r.trace.Input.Skipped[why]++ }
