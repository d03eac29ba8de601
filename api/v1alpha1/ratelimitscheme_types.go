package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RateLimitUnit is the unit of a rule's duration.
// +kubebuilder:validation:Enum=millisecond;second;minute;hour;day;month;calendar_day;calendar_month
type RateLimitUnit string

const (
	// RateLimitUnitMillisecond takes a duration 1 to 60000.
	RateLimitUnitMillisecond RateLimitUnit = "millisecond"
	// RateLimitUnitSecond takes a duration 1 to 1800.
	RateLimitUnitSecond RateLimitUnit = "second"
	// RateLimitUnitMinute takes a duration 1 to 1440.
	RateLimitUnitMinute RateLimitUnit = "minute"
	// RateLimitUnitHour takes a duration 1 to 720.
	RateLimitUnitHour RateLimitUnit = "hour"
	// RateLimitUnitDay takes a duration 1 to 30.
	RateLimitUnitDay RateLimitUnit = "day"
	// RateLimitUnitMonth is a rolling 30 days: duration 1.
	RateLimitUnitMonth RateLimitUnit = "month"
	// RateLimitUnitCalendarDay is reset at midnight UTC: duration 1.
	RateLimitUnitCalendarDay RateLimitUnit = "calendar_day"
	// RateLimitUnitCalendarMonth is reset on the first of the month at midnight UTC: duration 1.
	RateLimitUnitCalendarMonth RateLimitUnit = "calendar_month"
)

// RateLimitMode selects which requests a rule counts together.
// +kubebuilder:validation:Enum=per_app;per_key;per_ip;per_key_and_ip;per_app_and_ip
type RateLimitMode string

const (
	// RateLimitModePerApp counts all keys of an app together.
	RateLimitModePerApp RateLimitMode = "per_app"
	// RateLimitModePerKey counts each key separately.
	RateLimitModePerKey RateLimitMode = "per_key"
	// RateLimitModePerIP counts each IPv4 address and each IPv6 /64 of clients separately.
	RateLimitModePerIP RateLimitMode = "per_ip"
	// RateLimitModePerKeyAndIP counts each client address of each key separately.
	RateLimitModePerKeyAndIP RateLimitMode = "per_key_and_ip"
	// RateLimitModePerAppAndIP counts each client address of each app separately.
	RateLimitModePerAppAndIP RateLimitMode = "per_app_and_ip"
)

// EndpointPattern selects requests: `*` (all), an exact path (`/v1/things`) or a prefix (`/v1/*`), each optionally
// after a method and one blank (`POST /v1/*`). At most 256 characters.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=256
// +kubebuilder:validation:Pattern=`^((GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS|TRACE|CONNECT) )?(\*|/([!-"$-)+-.0->@-~]+/)*([!-"$-)+-.0->@-~]+|\*)?)$`
type EndpointPattern string

// RateLimitRule allows a number of requests in a window of time.
// +kubebuilder:validation:XValidation:rule="self.unit != 'second' || self.duration <= 1800",message="duration in seconds is 1 to 1800: use unit minute for longer windows",fieldPath=".duration"
// +kubebuilder:validation:XValidation:rule="self.unit != 'minute' || self.duration <= 1440",message="duration in minutes is 1 to 1440: use unit hour for longer windows",fieldPath=".duration"
// +kubebuilder:validation:XValidation:rule="self.unit != 'hour' || self.duration <= 720",message="duration in hours is 1 to 720: use unit month for longer windows",fieldPath=".duration"
// +kubebuilder:validation:XValidation:rule="self.unit != 'day' || self.duration <= 30",message="duration in days is 1 to 30: 30 days is the longest window",fieldPath=".duration"
// +kubebuilder:validation:XValidation:rule="!(self.unit in ['month', 'calendar_day', 'calendar_month']) || self.duration == 1",message="duration is exactly 1 for month, calendar_day and calendar_month: set it to 1",fieldPath=".duration"
type RateLimitRule struct {
	// unit of the duration. `millisecond`, `second`, `minute`, `hour`, `day`: a rolling window of duration units.
	// `month`: a rolling 30 days. `calendar_day`: reset at midnight UTC. `calendar_month`: reset on the first of the
	// month at midnight UTC.
	// +required
	Unit RateLimitUnit `json:"unit"`

	// duration is the window's length in units: 1 to 60000 milliseconds, 1800 seconds, 1440 minutes, 720 hours or 30
	// days; exactly 1 for month, calendar_day and calendar_month.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=60000
	Duration int32 `json:"duration"`

	// maxRequests is how many requests the window admits, 1 to 2147483647. No interval of the window's length admits more.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	MaxRequests int32 `json:"maxRequests"`

	// mode selects which requests are counted together. `per_app`: all keys of an app. `per_key`: each key. `per_ip`: each
	// client address (IPv6 per /64). `per_key_and_ip`: each address of each key. `per_app_and_ip`: each address of each
	// app. Absent: per_key.
	// +optional
	Mode *RateLimitMode `json:"mode,omitempty"`

	// endpoints are patterns of the requests to which the rule applies: `*`, an exact path or a prefix ending in /*, each
	// optionally after a method. A rule has at most 100, and a scheme 512. Absent: all (`*`).
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	Endpoints []EndpointPattern `json:"endpoints,omitempty"`

	// priority orders evaluation and reporting, lower first. Every matching rule must allow the request. Absent: 0.
	// +optional
	// +kubebuilder:validation:Minimum=-2147483648
	// +kubebuilder:validation:Maximum=2147483647
	Priority *int32 `json:"priority,omitempty"`
}

// RateLimitSchemeSpec declares a reusable scheme.
type RateLimitSchemeSpec struct {
	CommonSpec `json:",inline"`

	// deploymentRef names the IdentityDeployment to which this scheme belongs. Immutable.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="deploymentRef is immutable: create another resource for the other deployment"
	DeploymentRef DeploymentReference `json:"deploymentRef"`

	// slug identifies the scheme in HTTP paths, unique in the deployment. Immutable.
	// +required
	Slug Slug `json:"slug"`

	// displayName is the scheme's name for users. Absent: the slug.
	// +optional
	DisplayName *DisplayName `json:"displayName,omitempty"`

	// description says what the scheme is for. Absent: none.
	// +optional
	Description *Description `json:"description,omitempty"`

	// rules are the scheme's limits, 1 to 64. Every rule that matches a request must allow it. The list is owned and
	// replaced as a whole.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:XValidation:rule="self.map(r, has(r.endpoints) ? r.endpoints.size() : 0).sum() <= 512",message="a scheme has at most 512 endpoints over all its rules: use prefixes (/v1/*) or split the scheme"
	Rules []RateLimitRule `json:"rules"`
}

// RateLimitSchemeStatus is what the operator observed.
type RateLimitSchemeStatus struct {
	CommonStatus `json:",inline"`
}

// RateLimitScheme is a reusable set of rate limits for API authentication. Apps, keys and a deployment's default refer
// to it.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=rls,categories=cardea
// +kubebuilder:printcolumn:name="Slug",type=string,JSONPath=`.spec.slug`,description="The scheme's slug over HTTP"
// +kubebuilder:printcolumn:name="Deployment",type=string,JSONPath=`.spec.deploymentRef.name`,description="The IdentityDeployment to which it belongs"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether the declared state is active"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,priority=1,description="Why it is, or is not, ready"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`,description="Time since creation"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.spec) || !has(oldSelf.spec.id) || (has(self.spec) && has(self.spec.id) && self.spec.id == oldSelf.spec.id)",message="spec.id is never changed or removed: restore the old value",fieldPath=".spec.id"
// +kubebuilder:validation:XValidation:rule="(has(oldSelf.spec) && has(oldSelf.spec.id)) || !has(self.spec) || !has(self.spec.id) || (has(oldSelf.status) && has(oldSelf.status.id) && self.spec.id == oldSelf.status.id)",message="spec.id can be added to an existing resource only with the value of its status.id: copy that value",fieldPath=".spec.id"
type RateLimitScheme struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec declares the scheme.
	// +required
	Spec RateLimitSchemeSpec `json:"spec"`

	// status is what the operator observed; written by the operator only.
	// +optional
	// +kubebuilder:default={"observedGeneration":-1}
	Status RateLimitSchemeStatus `json:"status,omitzero"`
}

// RateLimitSchemeList is a list of RateLimitSchemes.
// +kubebuilder:object:root=true
type RateLimitSchemeList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the RateLimitSchemes.
	Items []RateLimitScheme `json:"items"`
}

// CommonSpec implements Resource.
func (s *RateLimitScheme) CommonSpec() *CommonSpec { return &s.Spec.CommonSpec }

// CommonStatus implements Resource.
func (s *RateLimitScheme) CommonStatus() *CommonStatus { return &s.Status.CommonStatus }
