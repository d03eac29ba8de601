package install

import (
	"maps"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
)

// installs are the folders that users install from.
var installs = []string{"default", "default-standalone"}

// workloads returns a Pod as each Deployment and StatefulSet of the installs would create it.
func workloads(t *testing.T) []*corev1.Pod {
	t.Helper()
	var pods []*corev1.Pod
	for _, folder := range installs {
		for _, object := range render(t, folder) {
			var name string
			var template corev1.PodTemplateSpec
			var claims []corev1.PersistentVolumeClaim
			switch object.GetKind() {
			case "Deployment":
				var deployment appsv1.Deployment
				convert(t, object.Object, &deployment)
				name, template = deployment.Name, deployment.Spec.Template
			case "StatefulSet":
				var set appsv1.StatefulSet
				convert(t, object.Object, &set)
				name, template, claims = set.Name, set.Spec.Template, set.Spec.VolumeClaimTemplates
			default:
				continue
			}
			pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
			pod.Namespace, pod.Name = object.GetNamespace(), name
			for _, claim := range claims {
				pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: claim.Name, VolumeSource: corev1.VolumeSource{
					PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name + "-" + name + "-0"},
				}})
			}
			pods = append(pods, pod)
		}
	}
	if len(pods) != 3 {
		t.Fatalf("%d workloads, want operator, server and standalone", len(pods))
	}
	return pods
}

func convert(t *testing.T, from map[string]any, to any) {
	t.Helper()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(from, to, true); err != nil {
		t.Fatal(err)
	}
}

// flaws are changes that make a Pod unrestricted. Each must be refused, otherwise the admission of Cardea's Pods proves
// nothing.
var flaws = map[string]func(*corev1.PodSpec){
	"may run as root":     func(s *corev1.PodSpec) { s.SecurityContext.RunAsNonRoot = nil },
	"runs as root":        func(s *corev1.PodSpec) { s.SecurityContext.RunAsUser = ptr.To[int64](0) },
	"no seccomp profile":  func(s *corev1.PodSpec) { s.SecurityContext.SeccompProfile = nil },
	"may gain privileges": func(s *corev1.PodSpec) { s.Containers[0].SecurityContext.AllowPrivilegeEscalation = nil },
	"keeps capabilities":  func(s *corev1.PodSpec) { s.Containers[0].SecurityContext.Capabilities = nil },
	"mounts the host": func(s *corev1.PodSpec) {
		s.Volumes = append(s.Volumes, corev1.Volume{Name: "host", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}})
	},
}

func testPods(t *testing.T, c *cluster) {
	create := func(pod *corev1.Pod) error {
		_, err := c.admin.CoreV1().Pods(pod.Namespace).Create(t.Context(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	for _, pod := range workloads(t) {
		if err := create(pod); err != nil {
			t.Errorf("%s is not admitted: %v", pod.Name, err)
		}
		for flaw, spoil := range flaws {
			bad := pod.DeepCopy()
			spoil(&bad.Spec)
			if err := create(bad); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `violates PodSecurity "restricted`) {
				t.Errorf("%s that %s: %v, want a refusal", pod.Name, flaw, err)
			}
		}
	}
}

// The Pods follow rules beyond the restricted standard.
func TestPodHabits(t *testing.T) {
	for _, pod := range workloads(t) {
		t.Run(pod.Name, func(t *testing.T) {
			container := pod.Spec.Containers[0]
			if !ptr.Deref(container.SecurityContext.ReadOnlyRootFilesystem, false) {
				t.Error("the root filesystem is writable")
			}
			if container.StartupProbe == nil || container.LivenessProbe == nil || container.ReadinessProbe == nil {
				t.Error("a probe is missing")
			}
			if container.Image != "cardea:latest" || container.ImagePullPolicy != corev1.PullIfNotPresent {
				t.Errorf("image %s, %s", container.Image, container.ImagePullPolicy)
			}
			if ptr.Deref(pod.Spec.EnableServiceLinks, true) {
				t.Error("enableServiceLinks must be false: Service variables could collide with CARDEA_ settings")
			}
			for _, list := range []corev1.ResourceList{container.Resources.Requests, container.Resources.Limits} {
				if list.Cpu().IsZero() || list.Memory().IsZero() {
					t.Errorf("requests and limits: %v", container.Resources)
				}
			}
			if ratio := float64(goMemoryLimit(t, container)) / float64(container.Resources.Limits.Memory().Value()); ratio < 0.88 || ratio > 0.92 {
				t.Errorf("GOMEMLIMIT is %.0f %% of the memory limit, want 90 %%", 100*ratio)
			}
		})
	}
}

// Services and network policies only name ports that the selected Pods have.
func TestPorts(t *testing.T) {
	for _, folder := range installs {
		named := map[string]map[string]int32{} // by component
		for _, object := range render(t, folder) {
			var template corev1.PodTemplateSpec
			switch object.GetKind() {
			case "Deployment":
				var deployment appsv1.Deployment
				convert(t, object.Object, &deployment)
				template = deployment.Spec.Template
			case "StatefulSet":
				var set appsv1.StatefulSet
				convert(t, object.Object, &set)
				template = set.Spec.Template
			default:
				continue
			}
			ports := map[string]int32{}
			for _, port := range template.Spec.Containers[0].Ports {
				ports[port.Name] = port.ContainerPort
			}
			named[template.Labels[component]] = ports
		}
		for serving, ports := range named {
			want := map[string]int32{"backend": 8080, "frontend": 8081, "decision": 8082, "grpc-envoy": 8083, "metrics": 8090}
			if serving == "operator" {
				want = map[string]int32{"metrics": 8090}
			}
			if !maps.Equal(ports, want) {
				t.Errorf("%s: %s has the ports %v, want %v", folder, serving, ports, want)
			}
		}
		published, admitted := portsNamed(t, folder)
		for _, ports := range []map[string][]string{published, admitted} {
			for of, names := range ports {
				for _, name := range names {
					if _, found := named[of][name]; !found {
						t.Errorf("%s: the Pods of %s have no port %q", folder, of, name)
					}
				}
			}
		}
		for of := range named {
			slices.Sort(published[of])
			slices.Sort(admitted[of])
			if !slices.Equal(published[of], admitted[of]) {
				t.Errorf("%s: %s publishes %v, and the policies admit %v", folder, of, published[of], admitted[of])
			}
		}
	}
}

// TestOptionalNetworkPolicies checks the folders of policies for optional dependencies: each opens only its egress
// ports, and only for the Pods that use them.
func TestOptionalNetworkPolicies(t *testing.T) {
	for folder, want := range map[string]struct {
		ports []int
		pods  []string
	}{
		"postgresql": {[]int{5432}, []string{"cardea-operator", "cardea-server"}},
		"redis":      {[]int{6379}, []string{"cardea-server", "cardea-standalone"}},
		"collector":  {[]int{4317, 4318}, []string{"cardea-operator", "cardea-server", "cardea-standalone"}},
	} {
		objects := render(t, "network-policy/"+folder)
		if len(objects) != 1 {
			t.Fatalf("%s: %d objects, want its policy", folder, len(objects))
		}
		var policy networkingv1.NetworkPolicy
		convert(t, objects[0].Object, &policy)
		if !slices.Equal(policy.Spec.PolicyTypes, []networkingv1.PolicyType{networkingv1.PolicyTypeEgress}) || len(policy.Spec.Ingress) > 0 {
			t.Errorf("%s: the policy has more than egress rules", folder)
		}
		var ports []int
		for _, egress := range policy.Spec.Egress {
			for _, port := range egress.Ports {
				ports = append(ports, port.Port.IntValue())
			}
		}
		if len(policy.Spec.Egress) != 1 || !slices.Equal(ports, want.ports) {
			t.Errorf("%s: %+v, want the ports %v alone", folder, policy.Spec.Egress, want.ports)
		}
		selector, err := metav1.LabelSelectorAsSelector(&policy.Spec.PodSelector)
		if err != nil {
			t.Fatal(err)
		}
		var selected []string
		for _, pod := range workloads(t) {
			if pod.Namespace == policy.Namespace && selector.Matches(labels.Set(pod.Labels)) {
				selected = append(selected, pod.Name)
			}
		}
		if slices.Sort(selected); !slices.Equal(selected, want.pods) {
			t.Errorf("%s: the policy selects the Pods %v, want %v", folder, selected, want.pods)
		}
	}
}

const component = "app.kubernetes.io/component"

// portsNamed returns the ports that Services of a folder publish and network policies admit, by component.
func portsNamed(t *testing.T, folder string) (published, admitted map[string][]string) {
	published, admitted = map[string][]string{}, map[string][]string{}
	everybody := []string{"standalone"}
	if folder == "default" {
		everybody = []string{"operator", "server"}
	}
	for _, object := range render(t, folder) {
		switch object.GetKind() {
		case "Service":
			var service corev1.Service
			convert(t, object.Object, &service)
			of := service.Spec.Selector[component]
			for _, port := range service.Spec.Ports {
				published[of] = append(published[of], port.TargetPort.StrVal)
			}
		case "NetworkPolicy":
			var policy networkingv1.NetworkPolicy
			convert(t, object.Object, &policy)
			selected := everybody
			for _, expression := range policy.Spec.PodSelector.MatchExpressions {
				selected = slices.DeleteFunc(slices.Clone(everybody), func(of string) bool { return !slices.Contains(expression.Values, of) })
			}
			for _, rule := range policy.Spec.Ingress {
				for _, port := range rule.Ports {
					for _, of := range selected {
						admitted[of] = append(admitted[of], port.Port.StrVal)
					}
				}
			}
		}
	}
	return published, admitted
}
