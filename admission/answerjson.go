package admission

import (
	"encoding/base64"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// answerBytes is enough for most answers, in bytes.
const answerBytes = 512

// appendReview appends the review that carries a. It knows the fields that this
// package sets, no others, and costs an allocation only where b is too short.
func (a *Answer) appendReview(b []byte) []byte {
	r := &a.Response
	b = append(b, `{"kind":"AdmissionReview","apiVersion":"`+admissionv1.GroupName+`/v1","response":{"uid":`...)
	b = appendText(b, string(r.UID))
	b = append(b, `,"allowed":`...)
	b = strconv.AppendBool(b, r.Allowed)
	if r.Result != nil {
		b = appendStatus(append(b, `,"status":`...), r.Result)
	}
	if r.PatchType != nil {
		b = append(b, `,"patch":"`...)
		b = base64.StdEncoding.AppendEncode(b, r.Patch)
		b = append(b, `","patchType":`...)
		b = appendText(b, string(*r.PatchType))
	}
	if !a.Decided.At.IsZero() {
		b = append(b, `,"auditAnnotations":{"`+AnnotationDecided+`":"`...)
		b = a.Decided.append(b)
		b = append(b, `"}`...)
	}
	if len(r.Warnings) > 0 {
		b = append(b, `,"warnings":[`...)
		for i, w := range r.Warnings {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendText(b, w)
		}
		b = append(b, ']')
	}
	return append(b, `}}`...)
}

func appendStatus(b []byte, s *metav1.Status) []byte {
	b = append(b, `{"metadata":{},"status":`...)
	b = appendText(b, s.Status)
	b = append(b, `,"message":`...)
	b = appendText(b, s.Message)
	b = append(b, `,"reason":`...)
	b = appendText(b, string(s.Reason))
	b = append(b, `,"code":`...)
	b = strconv.AppendInt(b, int64(s.Code), 10)
	return append(b, '}')
}

// appendText appends s as a JSON string. What is not UTF-8 becomes U+FFFD.
func appendText(b []byte, s string) []byte {
	b, _ = jsontext.AppendQuote(b, s) // its error only says that something did
	return b
}
