package simulate

import (
	"net/url"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// line is one line of any input but a list: an audit.k8s.io Event, an event of
// a watch, or an Event as it is.
type line struct {
	Kind       string `json:"kind"`
	APIVersion string `json:"apiVersion"`

	// Of a watch.
	Type   string         `json:"type"`
	Object jsontext.Value `json:"object"`

	// Of an audit log.
	AuditID        string           `json:"auditID"`
	Stage          string           `json:"stage"`
	RequestURI     string           `json:"requestURI"`
	Verb           string           `json:"verb"`
	User           jsontext.Value   `json:"user"`
	Impersonated   jsontext.Value   `json:"impersonatedUser"`
	ObjectRef      objectRef        `json:"objectRef"`
	ResponseStatus responseStatus   `json:"responseStatus"`
	RequestObject  jsontext.Value   `json:"requestObject"`
	ResponseObject jsontext.Value   `json:"responseObject"`
	Received       metav1.MicroTime `json:"requestReceivedTimestamp"`
	Annotations    decided          `json:"annotations"`
}

type objectRef struct {
	Resource    string `json:"resource"`
	Namespace   string `json:"namespace"`
	Name        string `json:"name"`
	APIGroup    string `json:"apiGroup"`
	Subresource string `json:"subresource"`
}

type responseStatus struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func (l *line) isAudit() bool { return strings.HasPrefix(l.APIVersion, "audit.k8s.io/") }

// Why lines of an audit log are not writes to simulate.
const (
	skipStage      = "stages of a request before its end"
	skipOther      = "requests about other resources, and reads"
	skipBodiless   = "requests without a body: a lower audit level than Request, or refused at once"
	skipDryRun     = "dry runs"
	skipExempt     = "requests of users that the webhook is not asked about"
	skipUnreached  = "requests that failed before or after admission"
	skipNotice     = "notices of eventquota"
	skipCollection = "deletions of many Events at once"
	skipWatch      = "bookmarks and errors of a watch"
)

// skipAudit says why an audit line is no write to simulate; empty if it is one.
func (l *line) skipAudit() string {
	ref := &l.ObjectRef
	switch {
	case l.Stage != "ResponseComplete":
		return skipStage
	case ref.Resource != "events" || ref.Subresource != "" || ref.APIGroup != "" && ref.APIGroup != newGroup:
		return skipOther
	case l.Verb == "deletecollection":
		return skipCollection
	case !slices.Contains([]string{"create", "update", "patch", "delete"}, l.Verb):
		return skipOther
	case !reached(l.ResponseStatus.Code):
		return skipUnreached
	case l.dryRun():
		return skipDryRun
	case len(l.RequestObject) == 0 && l.Verb != "delete":
		return skipBodiless
	}
	return ""
}

// reached tells whether a request that got this status has been, or would have
// been, before the webhook. One of an Event or namespace that is not there fails
// before; what the API server calls invalid is seen by one phase only.
func reached(code int) bool { return code/100 == 2 || code == 409 || code == 429 }

func (l *line) dryRun() bool { return l.query("dryRun") != "" }

// query is a parameter of the request.
func (l *line) query(name string) string {
	if !strings.Contains(l.RequestURI, name) { // nearly always
		return ""
	}
	uri, err := url.ParseRequestURI(l.RequestURI)
	if err != nil {
		return ""
	}
	return uri.Query().Get(name)
}

// user is whom admission takes for the user.
func (l *line) user() string {
	if len(l.Impersonated) > 0 {
		return string(l.Impersonated)
	}
	return string(l.User)
}
