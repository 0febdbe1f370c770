package simulate

import (
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// scan reads a line as decode would. It may take a line that decode refuses for
// what is in fields that nobody asks for.
func (l *line) scan(text string) bool {
	s := scanner{text: text}
	s.object(func(name string) {
		switch name {
		case "kind":
			l.Kind = s.string()
		case "apiVersion":
			l.APIVersion = s.string()
		case "type":
			l.Type = s.string()
		case "object":
			l.Object = s.value()
		case "auditID":
			l.AuditID = s.string()
		case "stage":
			l.Stage = s.string()
		case "requestURI":
			l.RequestURI = s.string()
		case "verb":
			l.Verb = s.string()
		case "user":
			l.User = s.value()
		case "impersonatedUser":
			l.Impersonated = s.value()
		case "objectRef":
			s.objectRef(&l.ObjectRef)
		case "responseStatus":
			s.status(&l.ResponseStatus)
		case "requestObject":
			l.RequestObject = s.value()
		case "responseObject":
			l.ResponseObject = s.value()
		case "requestReceivedTimestamp":
			l.Received = metav1.MicroTime{Time: s.microTime()}
		case "annotations":
			s.decided(&l.Annotations)
		default:
			s.value()
		}
	})
	return s.end()
}

func (s *scanner) objectRef(o *objectRef) {
	s.object(func(name string) {
		switch name {
		case "resource":
			o.Resource = s.string()
		case "namespace":
			o.Namespace = s.string()
		case "name":
			o.Name = s.string()
		case "apiGroup":
			o.APIGroup = s.string()
		case "subresource":
			o.Subresource = s.string()
		default:
			s.value()
		}
	})
}

func (s *scanner) status(r *responseStatus) {
	s.object(func(name string) {
		switch name {
		case "code":
			r.Code = int(s.integer(strconv.IntSize))
		case "message":
			r.Message = s.string()
		default:
			s.value()
		}
	})
}

func (s *scanner) decided(d *decided) {
	s.object(func(name string) {
		switch name {
		case mutateDecided:
			d.Mutate = s.string()
		case validateDecided:
			d.Validate = s.string()
		default:
			s.value()
		}
	})
}

// integer reads a number of so many bits that is written without a fraction or an
// exponent.
func (s *scanner) integer(bits int) int64 {
	text := string(s.value())
	n, err := strconv.ParseInt(text, 10, bits)
	if err != nil || text[0] == '+' || len(text) > 1 && text[0] == '0' {
		s.failed = true
	}
	return n
}

// microTime reads a time as the API server writes it, with microseconds.
func (s *scanner) microTime() time.Time {
	const likeThis = "2006-01-02T15:04:05.000000Z"
	text := s.string()
	if len(text) != len(likeThis) || text[19] != '.' {
		s.failed = true
		return time.Time{}
	}
	return s.parsed(text)
}

// time reads a time of whole seconds, or null.
func (s *scanner) time() time.Time {
	if s.null() {
		return time.Time{}
	}
	return s.parsed(s.string())
}

func (s *scanner) parsed(text string) time.Time {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		s.failed = true
	}
	return t
}

// null takes the next value if it is null.
func (s *scanner) null() bool {
	if s.peek() != 'n' {
		return false
	}
	if s.value() != "null" {
		s.failed = true
	}
	return true
}
