// SPDX-License-Identifier: Apache-2.0

package podspec

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Accounts are the users and groups of an image: its /etc/passwd and /etc/group.
type Accounts struct{ Passwd, Group []byte }

// User is the user that a container runs as.
type User struct {
	UID, GID int64
	Groups   []int64
}

// UserOf returns the user that a container runs as: from the container, its Pod, or its
// image.
func UserOf(pod *corev1.Pod, c Container, image Image, accounts Accounts) (User, error) {
	p, s := pod.Spec.SecurityContext, c.SecurityContext
	p = cmp.Or(p, &corev1.PodSecurityContext{})
	s = cmp.Or(s, &corev1.SecurityContext{})
	u, err := imageUser(image.User, accounts)
	uid, gid := cmp.Or(s.RunAsUser, p.RunAsUser), cmp.Or(s.RunAsGroup, p.RunAsGroup)
	nonRoot := cmp.Or(s.RunAsNonRoot, p.RunAsNonRoot)
	if uid != nil {
		u = User{UID: *uid, GID: groupOf(*uid, accounts)}
	} else if err != nil {
		return User{}, fmt.Errorf("%s.securityContext.runAsUser: %w", c.Field, err)
	}
	if gid != nil {
		u.GID = *gid
	}
	if nonRoot != nil && *nonRoot && u.UID == 0 {
		return User{}, fmt.Errorf("%s.securityContext.runAsNonRoot: the container would run as root: set runAsUser to another one than 0, or take an image that names one", c.Field)
	}
	for _, id := range []int64{u.UID, u.GID} {
		if id < 0 || id >= maxID {
			return User{}, fmt.Errorf("%s.securityContext.runAsUser: the image asks for ID %d, and a Pod has those below %d: set runAsUser and runAsGroup", c.Field, id, maxID)
		}
	}
	if p.SupplementalGroupsPolicy == nil || *p.SupplementalGroupsPolicy == corev1.SupplementalGroupsPolicyMerge {
		u.Groups = append(u.Groups, memberships(u.UID, accounts)...)
	}
	u.Groups = append(u.Groups, p.SupplementalGroups...)
	if p.FSGroup != nil {
		u.Groups = append(u.Groups, *p.FSGroup)
	}
	slices.Sort(u.Groups)
	u.Groups = slices.Compact(u.Groups)
	return u, nil
}

// imageUser parses the user of an image: a name or number, and after a colon the same
// for a group.
func imageUser(text string, a Accounts) (User, error) {
	name, group, _ := strings.Cut(text, ":")
	name = cmp.Or(name, "0")
	var u User
	if uid, err := strconv.ParseInt(name, 10, 64); err == nil {
		u = User{UID: uid, GID: groupOf(uid, a)}
	} else {
		fields := line(a.Passwd, 0, name)
		if fields == nil {
			return User{}, fmt.Errorf("the image runs as %q, which is not in its /etc/passwd: set it to a number", name)
		}
		u.UID, u.GID = number(fields, 2), number(fields, 3)
	}
	if group == "" {
		return u, nil
	}
	if gid, err := strconv.ParseInt(group, 10, 64); err == nil {
		u.GID = gid
		return u, nil
	}
	fields := line(a.Group, 0, group)
	if fields == nil {
		return User{}, fmt.Errorf("the image runs in group %q, which its /etc/group does not name: set runAsUser and runAsGroup to numbers", group)
	}
	u.GID = number(fields, 2)
	return u, nil
}

// groupOf is the group of a user, 0 if the image does not have the user.
func groupOf(uid int64, a Accounts) int64 {
	if fields := line(a.Passwd, 2, strconv.FormatInt(uid, 10)); fields != nil {
		return number(fields, 3)
	}
	return 0
}

// memberships are the groups that have a user as their member.
func memberships(uid int64, a Accounts) (groups []int64) {
	user := line(a.Passwd, 2, strconv.FormatInt(uid, 10))
	if user == nil {
		return nil
	}
	for l := range strings.Lines(string(a.Group)) {
		fields := strings.Split(strings.TrimSpace(l), ":")
		if len(fields) > 3 && slices.Contains(strings.Split(fields[3], ","), user[0]) {
			if gid := number(fields, 2); gid >= 0 && gid < maxID {
				groups = append(groups, gid)
			}
		}
	}
	return groups
}

// line is the first line of an account file with this text in a column.
func line(file []byte, column int, text string) []string {
	for l := range strings.Lines(string(file)) {
		if fields := strings.Split(strings.TrimSpace(l), ":"); len(fields) > column && fields[column] == text {
			return fields
		}
	}
	return nil
}

// number is a column as a number, -1 if it is not a number.
func number(fields []string, column int) int64 {
	if column >= len(fields) {
		return -1
	}
	n, err := strconv.ParseInt(fields[column], 10, 64)
	if err != nil {
		return -1
	}
	return n
}
