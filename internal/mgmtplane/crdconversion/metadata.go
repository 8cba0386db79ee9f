// SPDX-License-Identifier: Apache-2.0

package crdconversion

import "time"

// wellFormed reports whether metadata is as an API server writes it: decoded as
// metav1.ObjectMeta and encoded again, it would be the same. What an API server
// stores is, except what an old one has accepted.
func wellFormed(metadata map[string]any) bool {
	if generation, ok := metadata["generation"].(int64); !ok || generation == 0 {
		return false
	}
	for key, value := range metadata {
		ok := false
		switch key {
		case "name", "generateName", "namespace", "uid", "resourceVersion", "selfLink":
			ok = isText(value)
		case "generation", "deletionGracePeriodSeconds":
			_, ok = value.(int64)
		case "creationTimestamp", "deletionTimestamp":
			ok = isTime(value)
		case "labels", "annotations":
			m, isMap := value.(map[string]any)
			ok = isMap && len(m) > 0
			for _, v := range m {
				_, isString := v.(string)
				ok = ok && isString
			}
		case "finalizers":
			ok = each(value, isText)
		case "ownerReferences":
			ok = each(value, isOwner)
		case "managedFields":
			ok = each(value, isManager)
		}
		if !ok {
			return false
		}
	}
	return true
}

func isText(v any) bool { s, ok := v.(string); return ok && s != "" }

func isTime(v any) bool {
	s, ok := v.(string)
	if !ok {
		return false
	}
	t, err := time.Parse(time.RFC3339, s)
	return err == nil && t.UTC().Format(time.RFC3339) == s
}

// each reports whether v is a list with at least one item, all of which are ok.
func each(v any, ok func(any) bool) bool {
	list, isList := v.([]any)
	for _, item := range list {
		if !ok(item) {
			return false
		}
	}
	return isList && len(list) > 0
}

func isOwner(v any) bool {
	owner, ok := v.(map[string]any)
	texts := 0
	for key, value := range owner {
		switch key {
		case "apiVersion", "kind", "name", "uid":
			_, isString := value.(string)
			ok = ok && isString
			texts++
		case "controller", "blockOwnerDeletion":
			_, isBool := value.(bool)
			ok = ok && isBool
		default:
			return false
		}
	}
	return ok && texts == 4 // which are written even if they are empty
}

func isManager(v any) bool {
	manager, ok := v.(map[string]any)
	for key, value := range manager {
		switch key {
		case "manager", "operation", "apiVersion", "fieldsType", "subresource":
			ok = ok && isText(value)
		case "time":
			ok = ok && isTime(value)
		case "fieldsV1":
			_, isMap := value.(map[string]any)
			ok = ok && isMap
		default:
			return false
		}
	}
	return ok
}
