package admission

// Client is a program or library that writes Events, with what it does after each status of Refusals. Neither makes it send the
// request again.
type Client struct {
	Name    string
	Version string // the version that was tested, or whose source was read
	// Played is true if the tests play the requests that its source sends. Otherwise they run the client itself.
	Played bool
	// Conflict and BadRequest are what it does after 409 AlreadyExists and after 400.
	Conflict, BadRequest Reaction
}

// Reaction is the way in which a client reacts to a refusal.
type Reaction string

// Reactions of clients.
const (
	GoesOn       Reaction = "does nothing"
	LogsWarning  Reaction = "logs a warning"
	LogsError    Reaction = "logs an error"
	ReturnsError Reaction = "returns an error to its caller"
)

// Clients returns the clients of docs/clients.md. test/clients holds each of them to its row.
func Clients() []Client {
	return []Client{
		{"client-go, recorder of core/v1 (`client-go/tools/record`)", "0.37.2", false, GoesOn, LogsError},
		{"client-go, recorder of events.k8s.io (`client-go/tools/events`)", "0.37.2", false, GoesOn, LogsError},
		{"controller-runtime, `GetEventRecorderFor`", "0.25.2", false, GoesOn, LogsError},
		{"controller-runtime, `GetEventRecorder`", "0.25.2", false, GoesOn, LogsError},
		{"kubectl create", "1.37.2", false, ReturnsError, ReturnsError},
		{"JavaScript, `@kubernetes/client-node`", "1.4.0", false, ReturnsError, ReturnsError},
		{"Python, `kubernetes`", "22.6.0", false, ReturnsError, ReturnsError},
		{"kopf", "1.44.6", true, LogsWarning, LogsWarning},
		{"fabric8 `kubernetes-client`, which Strimzi and operators by the Java Operator SDK use", "7.8.0", true, ReturnsError, ReturnsError},
		{"kube-rs, `Recorder`", "4.2.0", true, ReturnsError, ReturnsError},
		{"KubeOps", "13.1.3", true, LogsError, LogsError},
	}
}
